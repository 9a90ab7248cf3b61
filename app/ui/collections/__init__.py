"""The page Collections: what is in the library, and what is done to it."""
