"""The page Explore: a collection as a map, clusters, duplicates, trends over time, outliers and a sample."""
