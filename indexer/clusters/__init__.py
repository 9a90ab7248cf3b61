"""Clusters of passages: found, named, scored, matched to earlier ones, and saved with the generation."""
