"""The page Compare: one query, answered in two ways side by side."""
