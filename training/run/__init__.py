"""A training run: optimisation, checkpoints, metrics, and what is kept of it."""
