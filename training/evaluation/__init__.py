"""Measures of how good an encoder is."""
