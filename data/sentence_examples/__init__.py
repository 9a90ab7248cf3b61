"""Sentence pairs, triplets and labels that encoders learn from."""
