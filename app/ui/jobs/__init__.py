"""The page Jobs: running and finished jobs of the library."""
