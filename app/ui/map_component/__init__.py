"""The map in the page: points by WebGL, named clusters, and what a lasso or a box was drawn around."""
