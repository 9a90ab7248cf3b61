"""The neighbour graph: each passage's nearest passages, found for all of a collection at once."""
