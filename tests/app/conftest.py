"""BERTs small enough to be made for a test."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizer, PreTrainedModel


def _save_bert(
    folder: str | Path,
    words: Sequence[str],
    *,
    seed: int = 0,
    kind: type[PreTrainedModel] = BertModel,
    **settings: Any,
) -> Path:
    shape = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 16,
        "initializer_range": 0.5,  # so few dimensions need a wide spread to tell texts apart
    }
    torch.manual_seed(seed)
    kind(BertConfig(vocab_size=len(words), **(shape | settings))).save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    tokenizer.save_pretrained(folder)
    return Path(folder)


@pytest.fixture(scope="session")
def save_bert() -> Callable[..., Path]:
    """Saves a random BERT of these words, special tokens among them: `save_bert(folder, words, **config)`."""
    return _save_bert
