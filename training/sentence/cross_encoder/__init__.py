"""Training of cross-encoders, which read two texts together and give a score."""
