"""The page Collections: the collections of the library, and what can be done with them."""
