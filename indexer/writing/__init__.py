"""Writing: adding rows, embedding passages, maintaining indexes, rolling out encoders."""
