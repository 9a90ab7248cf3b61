"""Inside an encoder, on a collection: what its layers and heads make of the tokens that are there."""
