"""Attention in the page: a two-sided graph of a text's tokens, by the layers and heads that are chosen."""
