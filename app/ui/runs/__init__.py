"""The page Runs: the long work of the library, live and done."""
