"""Smaller and faster encoders and vectors."""
