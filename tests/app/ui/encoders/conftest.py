"""A tiny encoder that was trained here, and a tiny BERT with its heads."""

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForPreTraining, BertModel, BertTokenizer

from nearsay.app.ui.settings import Settings

_VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "mat",
    "rain",
    ".",
]
_CHANGE = {
    "set": "pairs",
    "kind": "sts",
    "figure": "spearman",
    "items": 9,
    "before": 70.0,
    "after": 75.0,
    "difference_low": 1.0,
    "difference_high": 9.0,
    "verdict": "better",
}


def _config() -> BertConfig:
    torch.manual_seed(0)
    return BertConfig(
        vocab_size=len(_VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,
    )


def _tokenizer(folder: Path) -> None:
    BertTokenizer(vocab={token: number for number, token in enumerate(_VOCABULARY)}).save_pretrained(folder)


@pytest.fixture
def made_encoder(settings: Settings) -> Path:
    """LIBRARY/encoders/mine, with its lineage and its result."""
    folder = Path(settings.library).resolve() / "encoders" / "mine"
    BertModel(_config()).save_pretrained(folder)
    _tokenizer(folder)
    files = {
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "modules.json": [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
            for place, (path, name) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
        "1_Pooling/config.json": {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True},
        "config_sentence_transformers.json": {"prompts": {}},
        "lineage.json": ["WordPiece vocabulary", "a BERT", "sentence encoder: 9 pairs"],
        "run/result.json": {"steps": 4, "seconds": 1.0, "dev": {}, "base_dev": {}, "evaluations": [_CHANGE]},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content), "utf-8")
    return folder


@pytest.fixture
def made_bert(settings: Settings) -> Path:
    """LIBRARY/berts/tiny, with both heads."""
    folder = Path(settings.library).resolve() / "berts" / "tiny"
    BertForPreTraining(_config()).save_pretrained(folder)
    _tokenizer(folder)
    return folder
