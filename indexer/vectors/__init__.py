"""Vectors in memory-mapped segment files, and exact search over them."""
