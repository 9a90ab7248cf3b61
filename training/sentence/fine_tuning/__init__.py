"""Training a sentence encoder."""
