"""Long work in processes of its own, recorded in the library: progress, log, cancelling, resuming."""
