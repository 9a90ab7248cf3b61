"""Figures about an encoder from text that nobody judged."""
