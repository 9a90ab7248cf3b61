"""Most similar pairs, groups of near-duplicates, and the check for near-duplicates during indexing."""
