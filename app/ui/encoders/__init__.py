"""The page Encoders: the list of encoders, and views that try them and look inside."""
