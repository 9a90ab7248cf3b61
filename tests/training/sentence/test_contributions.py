from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.contributing import ContributingEncoder, TextContributions
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind

MakeFolder = Callable[..., Path]

TEXTS = [
    "the cat sat",
    "",
    "a dog",
    "naïve 日本 😀",
    "the cat sat on the mat . the dog sat on the cat . the mat",
]


def load(folder: Path, precision: Precision = Precision.FLOAT32) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=precision)


def of(encoder: Encoder, texts: list[str], kind: TextKind = TextKind.PASSAGE) -> list[TextContributions]:
    found = encoder.contributions(texts, kind=kind)
    assert found is not None
    return found


def totals(contributions: list[TextContributions]) -> np.ndarray:
    return np.array([parts.total for parts in contributions])


def test_the_encoder_can_say_what_its_tokens_add(tiny: Encoder) -> None:
    assert isinstance(tiny, ContributingEncoder)


@pytest.mark.parametrize("pooling", ["mean", "mean_sqrt_len_tokens", "weightedmean", "max"])
def test_the_parts_sum_to_the_vector_that_the_encoder_gives(pooling: str, make_folder: MakeFolder) -> None:
    encoder = load(make_folder(pooling=pooling, layers=2))
    found = of(encoder, TEXTS)
    np.testing.assert_allclose(totals(found), encoder.encode(TEXTS), atol=1e-5)
    assert {parts.exact for parts in found} == {pooling != "max"}


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
def test_a_vector_of_one_token_is_no_sum(pooling: str, make_folder: MakeFolder) -> None:
    assert load(make_folder(pooling=pooling)).contributions(TEXTS) is None


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_has_its_vector_in_parts(texts: list[str], tiny: Encoder) -> None:
    found = of(tiny, texts)
    np.testing.assert_allclose(totals(found), tiny.encode(texts), atol=1e-5)
    for text, parts in zip(texts, found, strict=True):
        assert parts.spans.shape == (len(parts.vectors), 2)
        assert ((parts.spans >= 0) & (parts.spans <= len(text))).all()
        assert (parts.spans[:, 0] <= parts.spans[:, 1]).all()


def test_bfloat16_is_explained_by_bfloat16(make_folder: MakeFolder) -> None:
    folder = make_folder(layers=2)
    narrow = load(folder, Precision.BFLOAT16)
    unit = totals(of(narrow, TEXTS))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, narrow.encode(TEXTS), atol=0.02)  # another pass, in other company
    assert np.abs(unit - load(folder).encode(TEXTS)).max() > 1e-6


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The cats sat", ["The", "cat", "s", "sat"]),
        ("naïve 日本 😀", ["n", "a", "ï", "v", "e", "日", "本", "😀"]),
    ],
)
def test_spans_are_the_texts_own(text: str, pieces: list[str], tiny: Encoder) -> None:
    (parts,) = of(tiny, [text])
    assert [text[start:end] for start, end in parts.spans] == ["", *pieces, ""]


@pytest.mark.parametrize("include_prompt", [True, False])
def test_a_prompt_has_no_span_and_its_part_if_it_is_pooled(
    include_prompt: bool, make_folder: MakeFolder
) -> None:
    folder = make_folder(prompts={"query": "query: "}, include_prompt=include_prompt)
    encoder = load(folder)
    (parts,) = of(encoder, ["the cat"], TextKind.QUERY)
    assert parts.spans.tolist() == [[0, 0], [0, 0], [0, 0], [0, 3], [4, 7], [0, 0]]
    assert bool(parts.vectors[:3].any()) is include_prompt
    vector = encoder.encode(["the cat"], kind=TextKind.QUERY)
    np.testing.assert_allclose(totals([parts]), vector, atol=1e-5)


def test_what_is_cut_off_has_no_token_and_is_told(tiny: Encoder) -> None:
    fits, cut = of(tiny, ["a " * 14, "a " * 15])
    assert (fits.whole, cut.whole) == (True, False)
    assert len(cut.vectors) == len(fits.vectors) == 16
    assert cut.spans.max() == 27


def test_no_texts_have_no_parts(tiny: Encoder) -> None:
    assert tiny.contributions([]) == []


def test_half_a_character_is_named(tiny: Encoder) -> None:
    with pytest.raises(BadInputError, match="lone surrogate"):
        tiny.contributions(["broken \ud800 text"])


def test_a_static_table_is_explained_exactly(tmp_path: Path) -> None:
    words = WordLevel({"[UNK]": 0, "cat": 1, "dog": 2}, unk_token="[UNK]")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = Whitespace()
    table = np.array([[0, 0, 0, 0], [3, 0, 0, 0], [0, 4, 0, 0]], dtype=np.float32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu")
    model.save_pretrained(str(tmp_path / "static"))
    encoder = load(tmp_path / "static")
    both, none = of(encoder, ["dog cat", ""])
    assert both.exact
    np.testing.assert_allclose(both.vectors, [[0, 2, 0, 0], [1.5, 0, 0, 0]])
    assert both.spans.tolist() == [[0, 3], [4, 7]]
    np.testing.assert_allclose(totals([both, none]), encoder.encode(["dog cat", ""]), atol=1e-6)
