"""Map a collection in two dimensions, and draw the map."""
