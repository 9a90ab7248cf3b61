"""Lexical search beside the dense one, and how the two become one ranking."""
