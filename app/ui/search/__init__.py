"""The page Search: a query and its results."""
