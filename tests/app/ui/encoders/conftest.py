"""A tiny encoder that was trained here, and a tiny BERT with its heads."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import BertForPreTraining

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


_SHAPE = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64}


@pytest.fixture
def made_encoder(settings: Settings, save_bert: Callable[..., Path]) -> Path:
    """LIBRARY/encoders/mine, with its lineage and its result."""
    folder = save_bert(Path(settings.library).resolve() / "encoders" / "mine", _VOCABULARY, **_SHAPE)
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


@pytest.fixture(scope="session")
def save_tiny(save_bert: Callable[..., Path]) -> Callable[[Path], Path]:
    """`save_tiny(library)`: LIBRARY/berts/tiny, with both heads."""

    def save(library: Path) -> Path:
        folder = library.resolve() / "berts" / "tiny"
        return save_bert(folder, _VOCABULARY, kind=BertForPreTraining, **_SHAPE)

    return save


@pytest.fixture
def made_bert(settings: Settings, save_tiny: Callable[[Path], Path]) -> Path:
    """That of the test's library."""
    return save_tiny(Path(settings.library))
