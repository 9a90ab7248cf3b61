"""Small sets of examples, and an encoder small enough to learn them in a second."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples

ANIMALS = ("cat", "dog")
PLACES = ("the mat", "a mat", "x y", "z", "b c", "query a", "passage b", "the x")


@pytest.fixture
def scored() -> SentenceExamples:
    """Pairs of the same animal score 5, of two animals 0."""
    rows = [
        (f"the {first} sat {place}", f"{place} {second}")
        for first in ANIMALS
        for second in ANIMALS
        for place in PLACES
    ]
    labels = tuple(5.0 if first == second else 0.0 for first in ANIMALS for second in ANIMALS for _ in PLACES)
    return SentenceExamples("animals", ExampleKind.SCORED, ("a", "b"), tuple(rows), labels)


@pytest.fixture
def examples_of() -> Callable[..., SentenceExamples]:
    """Make a set of a kind from rows."""

    def make(
        kind: ExampleKind, rows: Sequence[tuple[str, ...]], labels: Sequence[float] | None = None
    ) -> SentenceExamples:
        names = ("entailment", "neutral", "contradiction") if kind is ExampleKind.NLI else ()
        columns = tuple("abcdef"[: len(rows[0])])
        told = None if labels is None else tuple(labels)
        return SentenceExamples(f"{kind} rows", kind, columns, tuple(rows), told, label_names=names)

    return make


@pytest.fixture
def dev_file(tmp_path: Path) -> Path:
    """Scored pairs that are not among those of `scored`."""
    rows = ["score\tsentence1\tsentence2"]
    for first in ANIMALS:
        for second in ANIMALS:
            score = 5 if first == second else 0
            rows += [f"{score}\t{first} {place}\tsat {second}" for place in ("a", "b", "the mat x")]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path
