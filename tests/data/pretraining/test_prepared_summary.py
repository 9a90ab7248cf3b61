"""What is said of a prepared text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming
from tokenizers import Tokenizer

from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepare_options import PrepareOptions

HINT = "sentences on average: where blank lines separate paragraphs, take --breaks files (or headings)"


@pytest.fixture
def said(
    tokenizer_of: Callable[..., Tokenizer], write: Callable[..., Path], tmp_path: Path
) -> Callable[..., list[str]]:
    """Gives what is reported of a source when it is prepared, and sees that it comes again on reuse."""
    tokenizer = tokenizer_of(["gull", "boat", "."])

    def prepared(content: str | bytes, name: str = "a.txt", **options: object) -> list[str]:
        source, usual = write(name, content), PrepareOptions(**options)
        first: list[str] = []
        text = prepare_text([source], tokenizer, tmp_path / "prepared", usual, report=first.append)
        again: list[str] = []
        prepare_text([source], tokenizer, tmp_path / "prepared", usual, report=again.append)
        summary = first[len(text.notes) :]
        assert first[: len(text.notes)] == list(text.notes)
        assert [one.replace(f"in {text.folder / 'prepared.json'}", "above") for one in again] == summary
        return summary

    return prepared


def test_the_text_is_counted(said: Callable[..., list[str]]) -> None:
    text = "Gull. Boat.\nGull rope.\n\n" + "Boat boat. Gull. Boat.\n"  # 7 words, 6 full stops, 1 unknown
    assert said(text) == [Naming("2 documents", "6 sentences", "14 tokens", "7.14 %")]


def test_one_of_each_is_said_as_one(said: Callable[..., list[str]]) -> None:
    assert said("gull") == [Naming("1 document", "1 sentence", "1 token", "0.00 %")]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (1, ("1 row or line", "(named above)")),
        (20, ("20 rows or lines", "(named above)")),
        (21, ("21 rows or lines", "first 20", "named above")),
    ],
)
def test_what_could_not_be_used_is_counted(
    said: Callable[..., list[str]], wrong: int, told: tuple[str, ...]
) -> None:
    assert said(b"gull\n" + b"\xff\n" * wrong) == [
        Naming(*told),
        Naming("1 document", "1 sentence", "1 token", "0.00 %"),
    ]


def test_documents_of_few_sentences_are_wondered_at(said: Callable[..., list[str]]) -> None:
    text = "gull\nboat\n\ngull\nboat\n\ngull\n"  # 5 sentences of 3 documents
    assert said(text)[1:] == [f"documents have 1.7 {HINT}"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("gull\nboat\ngull\n\ngull\nboat\ngull\n", {}),  # three of each
        ("gull\nboat\n", {}),  # one document
        ("gull\n\nboat\n", {"breaks": "files"}),
        (" = Gulls = \ngull\n = Boats = \nboat\n", {"breaks": "headings"}),
        ('{"text": "gull"}\n{"text": "boat"}\n', {"name": "rows.jsonl"}),  # a row is a document anyhow
    ],
)
def test_other_documents_are_not(
    said: Callable[..., list[str]], content: str, options: dict[str, object]
) -> None:
    assert len(said(content, **options)) == 1
