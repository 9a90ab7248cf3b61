"""Filters over documents: a small language, parsed into expressions; values become bound SQL parameters."""
