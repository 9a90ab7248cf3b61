"""How well a tokenizer fits texts."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer, Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace
from tokenizers.processors import TemplateProcessing

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.bert.vocabulary import Accents, VocabularyConfig, train_vocabulary
from nearsay.training.bert.vocabulary_folder import save_vocabulary
from nearsay.training.evaluation import tokenizer_fit as fit_module
from nearsay.training.evaluation.tokenizer_fit import (
    BrokenWord,
    LengthFit,
    TokenizedWords,
    TokenizerFit,
    UnknownText,
    encoder_fit,
    new_vocabulary_config,
    tokenized_words,
    tokenizer_fit,
)

UNKNOWN = 0


def word_piece(*pieces: str, lowercase: bool = True) -> Tokenizer:
    """A BERT tokenizer of [UNK], [CLS], [SEP] and these pieces."""
    numbers = {piece: number for number, piece in enumerate(["[UNK]", "[CLS]", "[SEP]", *pieces])}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def words_of(text: str, tokenizer: Tokenizer | None = None, unknown: int | None = UNKNOWN) -> TokenizedWords:
    (measured,) = tokenized_words(tokenizer or word_piece("a"), [text], unknown_id=unknown)
    return measured


def spelled(measured: TokenizedWords) -> list[tuple[str, int]]:
    """Each word with the number of its tokens."""
    return [(measured.word(index), int(count)) for index, count in enumerate(measured.pieces)]


@pytest.fixture
def animals() -> TokenizerFit:
    """Seven words: the cats the cat unknown dog the. They give 10 tokens, the full stop one more."""
    tokenizer = word_piece("the", "cat", "##s", "un", "##know", "##n", ".")
    texts = ["The cats. The cat", "unknown dog the"]
    return tokenizer_fit("mine", tokenizer, texts, unknown_id=UNKNOWN, lengths=(8, 7, 3))


def test_the_figures_of_seven_words_are_those_worked_out_by_hand(animals: TokenizerFit) -> None:
    assert (animals.encoder, animals.vocabulary_size, animals.texts) == ("mine", 10, 2)
    assert (animals.words, animals.tokens) == (7, 11)
    assert animals.tokens_per_word == pytest.approx(10 / 7)
    assert animals.split_words == pytest.approx(2 / 7)
    assert animals.unknown_tokens == pytest.approx(1 / 11)
    assert animals.unknown_words == pytest.approx(1 / 7)
    assert animals.new_vocabulary is None


def test_special_tokens_count_for_the_length(animals: TokenizerFit) -> None:
    # With [CLS] and [SEP] the texts are 8 and 7 tokens long.
    assert animals.lengths == (
        LengthFit(3, 1.0, pytest.approx((5 + 4) / 11)),
        LengthFit(7, 0.5, pytest.approx(1 / 11)),
        LengthFit(8, 0.0, 0.0),
    )


def test_broken_and_unknown_words_are_listed_apart(animals: TokenizerFit) -> None:
    assert animals.broken == (
        BrokenWord("unknown", 1, ("un", "##know", "##n")),
        BrokenWord("cats", 1, ("cat", "##s")),
    )
    assert animals.unknown == (UnknownText("dog", 1),)


def test_the_dearest_word_is_the_one_that_costs_most_tokens_beyond_one_each() -> None:
    tokenizer = word_piece("a", "##b", "##c", "x", "##y")
    text = "abc abc " + "Xy xy xy xy " + "a " * 50  # abc costs 2 x 2, xy 4 x 1 and comes later in the list
    broken = tokenizer_fit("mine", tokenizer, [text + "xy"], unknown_id=UNKNOWN).broken
    assert broken == (BrokenWord("xy", 5, ("x", "##y")), BrokenWord("abc", 2, ("a", "##b", "##c")))


def test_only_twenty_words_are_listed() -> None:
    letters = "bcdefghijklmnopqrstuvwxyz"
    tokenizer = word_piece("a", *(f"##{letter}" for letter in letters))
    texts = [" ".join(f"a{letter}" for letter in letters)]
    fit = tokenizer_fit("mine", tokenizer, texts, unknown_id=UNKNOWN)
    assert [word.word for word in fit.broken] == [f"a{letter}" for letter in letters[:20]]
    fit = tokenizer_fit("mine", word_piece("z"), texts, unknown_id=UNKNOWN)
    assert [unknown.text for unknown in fit.unknown] == [f"a{letter}" for letter in letters[:20]]


def test_a_new_vocabulary_is_trained_on_one_half_and_counted_on_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_module, "_is_held_out", lambda text: "x" in text)
    tokenizer = word_piece("a", "##b", "c", "##d")
    texts = ["ab AB", "ab ab x cd", "ab"]  # cd is on the held-out side alone: nothing is learnt of it
    config = VocabularyConfig(size=200)
    fit = tokenizer_fit("mine", tokenizer, texts, unknown_id=UNKNOWN, new_vocabulary=config)
    new = fit.new_vocabulary
    assert new is not None
    assert (new.trained_texts, new.held_out_texts, new.cased) == (2, 1, False)
    assert new.size == 5 + 68 + 36 + 1  # special ones, ASCII, letters and digits with ##, ab
    assert (new.tokens, new.new_tokens) == (7, 5)  # a##b a##b [UNK] c##d, and ab ab x c##d
    assert new.saved == pytest.approx(2 / 7)
    assert (new.unknown_tokens, new.new_unknown_tokens) == (1, 0)


def test_the_same_text_is_never_on_both_sides() -> None:
    chance = random.Random(0)  # noqa: S311 - no secret
    texts = ["".join(chance.choices("ab cd", k=12)) for _ in range(400)]
    config = VocabularyConfig(size=150)
    once = tokenizer_fit("mine", word_piece("a"), texts, unknown_id=UNKNOWN, new_vocabulary=config)
    twice = tokenizer_fit("mine", word_piece("a"), texts * 2, unknown_id=UNKNOWN, new_vocabulary=config)
    assert once.new_vocabulary is not None
    assert twice.new_vocabulary is not None
    assert 150 < once.new_vocabulary.held_out_texts < 250
    assert twice.new_vocabulary.held_out_texts == 2 * once.new_vocabulary.held_out_texts


def test_one_text_cannot_be_halved() -> None:
    config = VocabularyConfig(size=200)
    fit = tokenizer_fit("mine", word_piece("a"), ["a a"] * 3, unknown_id=UNKNOWN, new_vocabulary=config)
    assert fit.new_vocabulary is None


@pytest.mark.parametrize(
    ("tokenizer", "cased", "accents"),
    [
        (word_piece("a"), False, Accents.STRIP),
        (word_piece("a", lowercase=False), True, Accents.KEEP),
        (Tokenizer(BPE()), True, Accents.KEEP),
    ],
)
def test_the_new_vocabulary_is_as_large_and_as_cased_as_the_old(
    tokenizer: Tokenizer, cased: bool, accents: Accents
) -> None:
    config = new_vocabulary_config(tokenizer, 300)
    assert (config.size, config.cased, config.accents) == (300, cased, accents)
    assert new_vocabulary_config(word_piece(*"abcdef")).size == 9
    lowercasing = Tokenizer(BPE())
    lowercasing.normalizer = Lowercase()
    assert new_vocabulary_config(lowercasing, 300).cased is False
    assert new_vocabulary_config(lowercasing, 300).accents is Accents.KEEP


def test_words_are_runs_of_letters_and_digits() -> None:
    measured = words_of("Don't say co-op, 2nd \u00bd e\u0301te\u0301 a\u00adb 東京へ € == _x_ हिन्दी ")
    assert [word for word, _ in spelled(measured)] == [
        "Don", "t", "say", "co", "op", "2nd", "\u00bd", "e\u0301te\u0301", "a\u00adb", "東", "京", "へ", "x",
        "हिन्दी",
    ]  # fmt: skip


def test_tokens_belong_to_the_words_whose_characters_they_stand_for() -> None:
    # The accents and the soft hyphen are gone before the pieces are found.
    tokenizer = word_piece("zoe", "##s", "owl", "##l", ",", "o", "##w")
    measured = words_of("Zoe\u0308s, O\u00adW OWLS dog", tokenizer)
    assert spelled(measured) == [("Zoe\u0308s", 2), ("O\u00adW", 2), ("OWLS", 2), ("dog", 1)]
    assert [measured.pieces_of(index) for index in (0, 2)] == [(3, 4), (5, 4)]
    assert measured.unknown.tolist() == [False, False, False, True]
    assert measured.unknown_texts == ["dog"]
    assert measured.tokens == 8


def test_a_byte_level_tokenizer_counts_the_bytes_that_it_breaks_a_word_into() -> None:
    numbers = {piece: number for number, piece in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE({**numbers, "ow": 256, "Ġow": 257}, [("o", "w"), ("Ġ", "ow")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    measured = words_of("owl zoë, 東", tokenizer, None)
    # Ġow l; z o and the two bytes of ë; 東 is three bytes. The blanks before these two are no word's.
    assert spelled(measured) == [("owl", 2), ("zoë", 4), ("東", 3)]
    assert measured.tokens == 12  # and the comma
    assert not measured.unknown.any()


def test_a_tokenizer_that_begins_its_pieces_with_the_blank_is_measured_alike() -> None:
    pieces = [("<unk>", 0.0), ("▁owl", -1.0), ("s", -2.0), ("▁the", -1.0), ("▁", -3.0), (",", -2.0)]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=0))
    tokenizer.normalizer = NFKC()
    tokenizer.pre_tokenizer = Metaspace()
    measured = words_of("the owls, zz owl", tokenizer)
    assert [word for word, _ in spelled(measured)] == ["the", "owls", "zz", "owl"]
    assert measured.pieces[[0, 1, 3]].tolist() == [1, 2, 1]
    assert measured.unknown.tolist() == [False, False, True, False]


_TEXTS = st.lists(st.text("abcé\u0301 .,-東京\u00ad\n", max_size=20), max_size=8)


@given(_TEXTS)
def test_what_words_and_marks_are_given_adds_up_to_all_tokens(texts: list[str]) -> None:
    tokenizer = word_piece("a", "b", "##a", "##b", ".", "東", lowercase=False)
    for text, measured in zip(texts, tokenized_words(tokenizer, texts, unknown_id=UNKNOWN), strict=True):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert measured.token_ids.tolist() == encoding.ids
        for index, (start, end) in enumerate(measured.spans.tolist()):
            overlapping = [
                number for (left, right), number in zip(encoding.offsets, encoding.ids, strict=True)
                if left < end and right > start
            ]  # fmt: skip
            assert measured.pieces_of(index) == tuple(overlapping)
            assert bool(measured.unknown[index]) == (UNKNOWN in overlapping)
        assert len(measured.unknown_texts) == encoding.ids.count(UNKNOWN)
        assert measured.pieces.dtype.kind == np.dtype(np.int64).kind


@pytest.mark.parametrize("texts", [[], [""], ["... --"]])
def test_texts_without_a_word_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadInputError, match=f"no word in the {len(texts)} texts"):
        tokenizer_fit("mine", word_piece("a"), texts, unknown_id=UNKNOWN)


def test_a_length_without_room_for_a_word_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"\b2 tokens .*\b2 special"):
        tokenizer_fit("mine", word_piece("a"), ["a"], unknown_id=UNKNOWN, lengths=(64, 2))


def test_a_listener_hears_of_every_text() -> None:
    heard: list[int] = []
    tokenizer_fit("mine", word_piece("a"), ["a"] * 3, unknown_id=UNKNOWN, listener=heard.append)
    assert heard == [1, 2, 3]


@pytest.mark.long
def test_the_bundled_tokenizer_is_measured_uncut_and_without_padding() -> None:
    fit = encoder_fit("all-MiniLM-L6-v2", ["the cat " * 400, "Embeddings!"], lengths=(256, 1000), new=False)
    assert (fit.encoder, fit.vocabulary_size, fit.words, fit.tokens) == ("all-MiniLM-L6-v2", 30522, 801, 805)
    assert [length.truncated_texts for length in fit.lengths] == [0.5, 0.0]
    assert fit.broken == (BrokenWord("Embeddings", 1, ("em", "##bed", "##ding", "##s")),)
    assert fit.new_vocabulary is None


def test_a_vocabulary_folder_of_ours_is_measured_by_its_place(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["owls owls Owl é"], VocabularyConfig(size=200, cased=True))
    save_vocabulary(vocabulary, tmp_path / "mine")
    texts = [f"owls number {number} ☃" for number in range(10)]
    fit = encoder_fit(tmp_path / "mine", texts, new_size=180)
    assert (fit.encoder, fit.vocabulary_size, fit.words) == ("mine", vocabulary.size, 30)
    assert fit.unknown == (UnknownText("☃", 10),)
    assert fit.new_vocabulary is not None
    assert fit.new_vocabulary.cased is True
    assert (
        163 < fit.new_vocabulary.size <= 180
    )  # special ones, ASCII, the snowman; letters and digits with ##


def test_a_new_vocabulary_that_cannot_be_is_refused_with_the_way_out() -> None:
    texts = [f"a {number}" for number in range(10)]
    with pytest.raises(BadInputError, match=r"new vocabulary .*\b20, .*--new-size.*--no-new"):
        tokenizer_fit(
            "mine", word_piece("a"), texts, unknown_id=UNKNOWN, new_vocabulary=VocabularyConfig(size=20)
        )


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NearsayError, match="no vocabulary"):
        encoder_fit(tmp_path, ["a"])
    with pytest.raises(NearsayError, match="there is no encoder folder"):
        encoder_fit(tmp_path / "nowhere", ["a"])
