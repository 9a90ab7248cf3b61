"""What people touch: the command line, its work in the background, and the page."""
