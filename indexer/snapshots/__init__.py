"""What a search sees: an immutable view of a generation, opened once and kept."""
