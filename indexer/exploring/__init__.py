"""What a collection says of itself without a query."""
