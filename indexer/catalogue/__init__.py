"""The SQL side of a library: documents, passages, generations and segments."""
