"""Hard negatives: passages that look right and are not."""
