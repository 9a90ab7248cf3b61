"""Pooled sentence encoders and their runtime."""
