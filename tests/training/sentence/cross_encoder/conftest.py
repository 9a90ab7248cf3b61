"""A query's animal decides which passage answers it: what a cross-encoder of a few weights learns."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples

ANIMALS = ("cat", "dog")
PLACES = ("the mat", "a b", "x y", "z", "b c", "query a", "passage b", "the x")


def answer(animal: str, place: str) -> str:
    return f"{place} {animal}"


@pytest.fixture
def bert(tiny_words: list[str], tmp_path: Path, save_bert: Callable[..., Path]) -> Path:
    """A plain BERT of random weights."""
    return save_bert(
        tmp_path / "bert",
        tiny_words,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=48,
        initializer_range=0.2,
    )


@pytest.fixture
def triplets() -> SentenceExamples:
    """The passage about the query's animal, and one about the other."""
    rows = [
        (f"the {animal} {asked}", answer(animal, place), answer(other, place))
        for animal, other in (ANIMALS, ANIMALS[::-1])
        for asked in PLACES[:4]
        for place in PLACES
    ]
    return SentenceExamples(
        "animals", ExampleKind.TUPLES, ("query", "positive", "negative"), tuple(rows), None
    )


@pytest.fixture
def dev_file(tmp_path: Path) -> Path:
    """Lists to rerank of queries that are not among those of `triplets`."""
    path = tmp_path / "dev.jsonl"
    lines = [
        f'{{"query": "the {animal} {asked}", "positive": ["{answer(animal, "a b")}"], '
        f'"negative": ["{answer(other, "a b")}", "{answer(other, "z")}", "{answer(other, "the x")}"]}}'
        for animal, other in (ANIMALS, ANIMALS[::-1])
        for asked in ("sat", "mat", "x", "b", "c")
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
