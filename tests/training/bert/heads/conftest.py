"""A BERT small enough to learn by heart in a second, and judged rows written to files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens


@pytest.fixture(scope="session")
def learner_folder(
    tiny_words: list[str], tmp_path_factory: pytest.TempPathFactory, save_bert: Callable[..., Path]
) -> Path:
    """A BERT of two layers and 32 dimensions that learns quickly: no dropout, and weights not too small."""
    return save_bert(
        tmp_path_factory.mktemp("berts") / "learner",
        tiny_words,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.25,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_folder: Path) -> Tokenizer:
    """Knows the letters, `the`, `cat`, `dog`, `sat`, `mat`, `query`, `passage`, `:`, `.` and `##ing`."""
    return load_bert(tiny_folder).tokenizer


@pytest.fixture(scope="session")
def tokens(tiny_tokenizer: Tokenizer) -> ExampleTokens:
    return ExampleTokens(tiny_tokenizer)


@pytest.fixture(scope="session")
def write_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a tsv of labels and texts."""

    def write(rows: Sequence[Sequence[str]], name: str = "train.tsv") -> Path:
        header = ["label", "text"] if len(rows[0]) == 2 else ["label", "sentence1", "sentence2"]
        path = tmp_path_factory.mktemp("rows") / name
        path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), "utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def write_conll(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write sentences of word/tag as a CoNLL file."""

    def write(sentences: Sequence[str], name: str = "train.conll") -> Path:
        blocks = ["\n".join("\t".join(pair.rsplit("/", 1)) for pair in line.split()) for line in sentences]
        path = tmp_path_factory.mktemp("sentences") / name
        path.write_text("\n\n".join(blocks) + "\n", "utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def write_questions(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write (question, context, answer or None) in SQuAD's format; the answer's first place counts."""

    def write(rows: Sequence[tuple[str, str, str | None]], name: str = "train.json") -> Path:
        paragraphs = []
        for number, (question, context, answer) in enumerate(rows):
            answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
            entry = {
                "id": str(number),
                "question": question,
                "answers": answers,
                "is_impossible": answer is None,
            }
            paragraphs.append({"context": context, "qas": [entry]})
        path = tmp_path_factory.mktemp("questions") / name
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), "utf-8")
        return path

    return write
