"""What people said of search results, kept as evaluation and training data."""
