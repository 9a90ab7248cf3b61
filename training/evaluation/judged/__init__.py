"""Judged sets, what an encoder reaches on them, and how sure that is."""
