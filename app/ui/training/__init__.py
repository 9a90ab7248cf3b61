"""The page Training: forms that train a vocabulary, pretrain a BERT, and fine-tune or adapt an encoder."""
