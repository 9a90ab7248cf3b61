"""The map view: points drawn with WebGL, named clusters, and selection with a lasso or box."""
