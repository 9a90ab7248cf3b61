"""The page Search: a question, and the passages that answer it."""
