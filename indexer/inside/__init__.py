"""Inspect an encoder on a collection: the outputs of its layers and heads for the collection's tokens."""
