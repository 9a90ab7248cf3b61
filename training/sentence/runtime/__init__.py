"""The fast ways through an encoder's model."""
