"""The BERT core: vocabulary, pretraining, features by layer, task heads."""
