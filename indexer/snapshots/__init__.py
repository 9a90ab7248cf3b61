"""Snapshots: immutable views of a generation that searches use, opened once and cached."""
