import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence import tokens
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

MakeFolder = Callable[..., Path]

TEXTS = [
    "the cat sat",
    "a dog",
    "",
    "   ",
    "the cat sat on the mat . the dog sat on the cat . the mat sat on the dog",
    "naïve 日本 😀",
    "[SEP] the [MASK] cat [UNK]",
    "a dog",
    "UPPER case",
    "\x00\x07control\n\nlines\t",
]


def load(folder: Path, precision: Precision = Precision.FLOAT32) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=precision)


def peer(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def test_an_encoder_is_a_text_encoder(tiny: Encoder) -> None:
    encoder: TextEncoder = tiny
    assert encoder.encode(["a"]).shape == (1, encoder.dimension)


def test_a_bert_whose_tokenizer_pads_on_the_left_gives_the_same_vectors(make_folder: MakeFolder) -> None:
    folder = make_folder()
    expected = load(folder).encode(TEXTS)
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "padding_side": "left"}), "utf-8")
    np.testing.assert_array_equal(load(folder).encode(TEXTS), expected)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_those_of_sentence_transformers(pooling: str, make_folder: MakeFolder) -> None:
    folder = make_folder(pooling=pooling)
    np.testing.assert_allclose(load(folder).encode(TEXTS), peer(folder).encode(TEXTS), atol=1e-5)


def test_vectors_are_float32_contiguous_and_of_length_one(tiny: Encoder) -> None:
    vectors = tiny.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_no_texts_give_no_vectors(tiny: Encoder) -> None:
    assert tiny.encode([]).shape == (0, 32)
    assert tiny.encode_window([]).vectors.shape == (0, 32)


def test_equal_texts_get_equal_vectors_and_one_pass(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    start = tiny._forward.start

    def counted(token_ids: list[list[int]], *, prompt_length: int) -> Callable[[], NDArray[np.float32]]:
        seen.append(len(token_ids))
        return start(token_ids, prompt_length=prompt_length)

    monkeypatch.setattr(tiny._forward, "start", counted)
    vectors = tiny.encode(["a cat", "a dog", "a cat", "a cat"])
    assert seen == [2]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(vectors[0], vectors[3])
    assert not np.array_equal(vectors[0], vectors[1])


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_neither_order_nor_company_matters(texts: list[str], seed: int, tiny: Encoder) -> None:
    order = np.random.default_rng(seed).permutation(len(texts))
    together = tiny.encode(texts)
    shuffled = tiny.encode([texts[place] for place in order])
    alone = np.concatenate([tiny.encode([text]) for text in texts])
    np.testing.assert_allclose(shuffled, together[order], atol=1e-5)
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_a_string_in_the_place_of_a_list_is_refused(tiny: Encoder) -> None:
    with pytest.raises(TypeError, match="give a list of texts"):
        tiny.encode("the cat")
    with pytest.raises(TypeError, match="give a list of texts"):
        tiny.token_offsets("the cat")


def test_what_is_not_a_string_is_refused(tiny: Encoder) -> None:
    with pytest.raises(TypeError, match="a text is a int"):
        tiny.encode(["a", 3])  # type: ignore[list-item]  # the mistake under test


def test_half_a_character_is_named(tiny: Encoder) -> None:
    with pytest.raises(BadInputError, match="lone surrogate"):
        tiny.encode(["fine", "broken \ud800 text"])


def test_a_text_with_a_word_too_long_for_the_vocabulary_counts_as_cut(tiny: Encoder) -> None:
    unknown, too_long = "ж" * 100, "ж" * 101
    assert tiny.encode_window([unknown, f"a {unknown}"]).truncated == 0
    assert tiny.encode_window([too_long, f"a {too_long} b", too_long, "b"]).truncated == 3
    assert tiny.encode_window(["a" * 1_000_000]).truncated == 1


def test_only_texts_with_a_long_run_of_signs_are_cut_into_tokens_again(
    tiny: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[list[str]] = []
    encoded = tokens._encoded
    monkeypatch.setattr(
        tokens, "_encoded", lambda one, texts, **how: cut.append([*texts]) or encoded(one, texts, **how)
    )
    plain, long = f"{'ж' * 40} " * 3, "ж" * 101
    tiny.encode_window([plain, f"{plain} b", long, f"{long} b"])
    assert cut == [[plain, f"{plain} b", long, f"{long} b"], [long, f"{long} b"]]


def test_cut_texts_are_counted_each_time_and_warned_of(
    tiny: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    just_fits, too_long = "a " * 14, "a " * 15
    assert tiny.encode_window([just_fits, "b"]).truncated == 0
    assert tiny.encode_window([too_long, "b", too_long]).truncated == 2
    with caplog.at_level(logging.WARNING, logger="nearsay"):
        tiny.encode([just_fits])
        assert not caplog.records
        tiny.encode([too_long, "b", too_long])
        tiny.encode([too_long, "b"])
        tiny.encode([too_long])
    assert [record.getMessage() for record in caplog.records] == [
        f"{longer} longer than the 14 tokens that tiny takes; what is beyond was left out"
        for longer in ("2 of 3 texts are", "1 of 2 texts is", "the text is")
    ]


def test_what_is_beyond_the_limit_does_not_count(tiny: Encoder) -> None:
    first, second = tiny.encode(["a " * 14 + "cat", "a " * 14 + "dog " * 50])
    np.testing.assert_array_equal(first, second)


def test_token_offsets_are_character_spans_of_the_whole_text(tiny: Encoder) -> None:
    text = "the 日 cat"
    spans = tiny.token_offsets([text, "", "a " * 100])
    assert [text[start:end] for start, end in spans[0]] == ["the", "日", "cat"]
    assert spans[1].shape == (0, 2)
    assert spans[2].shape == (100, 2)
    assert spans[0].dtype == np.int64


def test_prompts_are_put_before_their_kind_of_text(make_folder: MakeFolder) -> None:
    prompted = load(make_folder("prompted", prompts={"query": "query: ", "passage": "passage: "}))
    plain = load(make_folder("plain"))
    texts = ["the cat", "a dog"]
    np.testing.assert_allclose(
        prompted.encode(texts, kind=TextKind.QUERY),
        plain.encode([f"query: {text}" for text in texts]),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        prompted.encode(texts), plain.encode([f"passage: {text}" for text in texts]), atol=1e-6
    )
    assert prompted.max_tokens == plain.max_tokens - 2  # "passage" and ":"
    assert prompted.fingerprint != plain.fingerprint


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_a_passage_prompt_has_three_names(name: str, make_folder: MakeFolder) -> None:
    folder = make_folder(prompts={name: "passage: ", "other": "cat"})
    model = peer(folder)
    encoder = load(folder)
    np.testing.assert_allclose(
        encoder.encode(["a dog"]), model.encode(["a dog"], prompt="passage: "), atol=1e-5
    )
    np.testing.assert_allclose(
        encoder.encode(["a dog"], kind=TextKind.QUERY), model.encode(["a dog"]), atol=1e-5
    )


def test_a_pooling_that_leaves_the_prompt_out_gets_its_length(make_folder: MakeFolder) -> None:
    folder = make_folder(prompts={"query": "query: the "}, include_prompt=False)
    texts = ["a cat", "the mat sat on the dog"]
    expected = peer(folder).encode_query(texts)
    np.testing.assert_allclose(load(folder).encode(texts, kind=TextKind.QUERY), expected, atol=1e-5)
    assert not np.allclose(load(folder).encode(["query: the a cat"]), expected[:1], atol=1e-3)
    passages = peer(folder).encode_document(texts)  # which have no prompt, and so nothing to leave out
    np.testing.assert_allclose(load(folder).encode(texts), passages, atol=1e-5)


def test_bfloat16_vectors_are_unit_vectors_close_to_the_exact_ones(tiny_folder: Path, tiny: Encoder) -> None:
    narrow = load(tiny_folder, Precision.BFLOAT16)
    vectors = narrow.encode(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (vectors * tiny.encode(TEXTS)).sum(axis=1).min() > 0.999
    assert not np.array_equal(vectors, tiny.encode(TEXTS))


def test_many_threads_get_the_vectors_of_one(tiny: Encoder) -> None:
    groups = [[f"the cat {chr(97 + group)} {'dog ' * length}" for length in range(12)] for group in range(8)]
    alone = [tiny.encode(group) for group in groups]
    spans = [tiny.token_offsets(group) for group in groups]
    start = threading.Barrier(8)

    def work(place: int) -> tuple[NDArray[np.float32], list[NDArray[np.int64]]]:
        start.wait(timeout=60)
        return tiny.encode(groups[place]), tiny.token_offsets(groups[place])

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(work, range(8)))
    for place, (vectors, offsets) in enumerate(together):
        np.testing.assert_allclose(vectors, alone[place], atol=1e-6)
        for one, other in zip(offsets, spans[place], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.long
def test_the_bundled_encoder_gives_sentence_transformers_vectors(bundled: Encoder) -> None:
    from nearsay.training.sentence.bundled import bundled_folder

    texts = [
        *TEXTS,
        "word " * 600,
        "ein längerer Satz über Datenbanken",
        "データベース",
        "https://x.org/?a=1&b=2",
    ]
    np.testing.assert_allclose(bundled.encode(texts), peer(bundled_folder()).encode(texts), atol=1e-5)
    assert bundled.max_tokens == 254
    assert bundled.dimension == 384
    assert bundled.normalised


def test_the_bundled_encoder_finds_the_paraphrase(bundled: Encoder) -> None:
    query, near, far = bundled.encode(
        ["How do I reset my password?", "I forgot my login code", "The ship left the harbour at dawn"]
    )
    assert query @ near > query @ far + 0.3


@pytest.mark.long
@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16])
def test_company_changes_bundled_vectors_by_less_than_a_thousandth(precision: Precision) -> None:
    encoder = Encoder.load(device="cpu", precision=precision)
    texts = [f"sentence number {number} about {'very ' * (number % 30)}old ships" for number in range(40)]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts[::5]])
    np.testing.assert_allclose(alone, together[::5], atol=1e-3)
    assert (alone * together[::5]).sum(axis=1).min() > 0.9999
