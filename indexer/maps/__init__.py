"""A collection in two dimensions: laid out, kept, drawn."""
