"""Text in, examples out: readers, chunking, evaluation sets, samples. Imports nothing of nearsay."""
