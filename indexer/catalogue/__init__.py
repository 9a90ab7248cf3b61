"""The SQL side of a library: what is true about documents, passages, generations and segments."""
