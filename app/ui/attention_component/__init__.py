"""The attention view: a bipartite graph of a text's tokens for the chosen layers and heads."""
