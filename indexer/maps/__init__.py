"""Maps: the passages of a collection in two dimensions."""
