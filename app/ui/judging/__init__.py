"""Judging passages by keyboard, and rankings without knowing whose they are."""
