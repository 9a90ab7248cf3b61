"""Small vocabularies and texts to make pretraining examples of."""

import gzip
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.pretraining.prepared_text import PreparedText, Shard
from nearsay.data.pretraining.special_tokens import SpecialTokens

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
STEMS = ["".join(letters) for letters in itertools.product("bcdfgklmnprstv", "aeiou", "bdgklmnprt")]  # 700
ENDINGS = ["##ish", "##ous"]


def word_piece(words: Sequence[str]) -> Tokenizer:
    """Make a tokenizer that knows these pieces and no others, the special ones first."""
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer_of() -> Callable[[Sequence[str]], Tokenizer]:
    """Makes a tokenizer of the given pieces."""
    return word_piece


@pytest.fixture(scope="session")
def special() -> SpecialTokens:
    """The special tokens of every tokenizer here."""
    return SpecialTokens(pad=0, unknown=1, cls=2, sep=3, mask=4)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Knows 700 invented stems, two endings, the full stop and some words of `harbour`."""
    things = ["boat", "gull", "net", "rope", "fog", "it", "the", "a", "and"]
    happen = ["came", "left", "was", "sold", "lifted", "empty", "old", "late", "again"]
    return word_piece([*STEMS, *ENDINGS, ".", *things, *happen])


@pytest.fixture(scope="session")
def harbour() -> str:
    """Two short documents in BERT's format."""
    return (
        "The boat came late. The net was empty.\n"
        "A gull left.\n"
        "\n"
        "The fog lifted again.\n"
        "The old rope was sold. It was late.\n"
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a source, compressed if its name says so."""

    def write_file(name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


@pytest.fixture
def prepare(
    tmp_path: Path, tokenizer: Tokenizer, write: Callable[[str, str | bytes], Path]
) -> Callable[..., PreparedText]:
    """Prepare a text of plain lines, a sentence each."""

    def prepare_it(content: str, name: str = "prepared", **options: object) -> PreparedText:
        usual = PrepareOptions(**{"one_sentence_a_line": True, **options})
        return prepare_text([write(f"{name}.txt", content)], tokenizer, tmp_path / name, usual)

    return prepare_it


@pytest.fixture(scope="session")
def shard_of() -> Callable[..., Shard]:
    """Makes a shard of documents given as the sizes of their sentences; a token's number is its place."""

    def make(documents: Sequence[Sequence[int]], numbers: Sequence[int] | None = None) -> Shard:
        sizes = [size for document in documents for size in document]
        starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        bounds = np.concatenate(([0], np.cumsum([len(document) for document in documents], dtype=np.int64)))
        tokens = np.arange(starts[-1]).astype(np.uint32)
        return Shard(tokens, starts, bounds, np.array(numbers or range(len(documents)), np.int64))

    return make


@pytest.fixture(scope="session")
def many_words() -> str:
    """Forty documents of 180 lines, about 100,000 tokens, in words of one to three pieces.

    The document with number n is written in the stems n * 17 to n * 17 + 16 alone.
    """
    chance = random.Random(5)  # noqa: S311 - no secret
    documents = []
    for number in range(40):
        stems = STEMS[number * 17 : (number + 1) * 17]
        lines = []
        for _ in range(180):
            words = [
                chance.choice(stems) + "".join(chance.choices(["", "ish", "ishous"], weights=[7, 2, 1]))
                for _ in range(chance.randint(3, 17))
            ]
            lines.append(" ".join(words))
        documents.append("\n".join(lines))
    return "\n\n".join(documents)
