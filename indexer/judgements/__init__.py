"""Relevance judgements of search results, as evaluation and training data."""
