"""Most similar pairs, near-duplicates, their groups, and the gate that looks for them at indexing."""
