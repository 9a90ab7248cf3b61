"""The page Training: forms that start a vocabulary, a pretraining or a fine-tuning."""
