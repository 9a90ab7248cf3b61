"""The page Compare: one query, two rankings side by side."""
