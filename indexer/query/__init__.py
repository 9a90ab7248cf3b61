"""Search: candidates by vectors and by words, fusion, fetching, and explanations."""
