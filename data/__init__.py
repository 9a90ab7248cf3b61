"""Reading data: readers, chunking, evaluation sets, samples. Imports nothing else of nearsay."""
