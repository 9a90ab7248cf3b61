"""Encoders: what they are, how they run, how good they are."""
