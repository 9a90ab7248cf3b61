"""Task heads on a BERT: classification, tagging, reading."""
