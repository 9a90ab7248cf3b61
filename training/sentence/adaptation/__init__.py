"""Adapting an encoder to a corpus that nobody labelled."""
