"""The page Explore: what a collection says of itself, as a map, clusters, duplicates and through time."""
