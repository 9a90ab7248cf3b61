"""Pretraining examples: text to masked sentence pairs."""
