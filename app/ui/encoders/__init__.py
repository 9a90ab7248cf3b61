"""The page Encoders: which there are, where they come from, and what they do with a text."""
