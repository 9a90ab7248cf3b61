"""Filters over documents: a small language, parsed and never pasted into SQL."""
