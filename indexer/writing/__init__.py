"""What changes a collection: rows in, passages embedded, indexes kept up, encoders rolled out."""
