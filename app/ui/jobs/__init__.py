"""The page Jobs: the long work of the library, live and done."""
