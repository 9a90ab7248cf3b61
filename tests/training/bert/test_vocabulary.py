"""Training a vocabulary."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.training.bert.vocabulary import (
    LONGEST_WORD,
    Accents,
    Vocabulary,
    VocabularyConfig,
    WordCounter,
    train_vocabulary,
)


def trained(*texts: str, size: int = 60, ascii: bool = False, **options: object) -> Vocabulary:  # noqa: A002 - the option's name
    return train_vocabulary(texts, VocabularyConfig(size=size, ascii=ascii, **options))  # type: ignore[arg-type]


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_the_vocabulary_of_a_few_words_is_the_one_worked_out_by_hand() -> None:
    # b##a twice, ##a##n and ##n##a four times each: ##a has the lower number. In b##an##an##a all pairs stand
    # twice: b has the lowest number. In ban##an##a both: ##an is older than ban. A full stop goes on no word.
    vocabulary = trained("Banana banana.")
    assert vocabulary.pieces == [
        *SPECIAL, ".", "a", "b", "n", "##a", "##b", "##n",
        "##an", "ban", "##ana", "banana",
    ]  # fmt: skip
    assert vocabulary.tokenizer.encode("BANANA").ids == [2, 15, 3]
    assert vocabulary.tokenizer.encode("nab", "a").tokens == [
        "[CLS]", "n", "##a", "##b", "[SEP]", "a", "[SEP]",
    ]  # fmt: skip
    assert vocabulary.tokenizer.encode("nab", "a").type_ids == [0, 0, 0, 0, 0, 1, 1]
    assert vocabulary.tokenizer.decode([15, 10, 5]) == "bananab."


def test_the_counts_say_what_it_was_trained_on() -> None:
    counts = trained("Banana banana.", "a nab").counts
    assert (counts.texts, counts.words, counts.different_words, counts.characters) == (2, 5, 4, 4)
    assert (counts.characters_left_out, counts.words_left_out, counts.words_forgotten) == (0, 0, 0)


def test_special_tokens_have_the_numbers_0_to_4_and_further_ones_follow() -> None:
    vocabulary = trained("ab", special=("<num>", "[ENT]"), unused=2)
    assert vocabulary.pieces[:9] == [*SPECIAL, "<num>", "[ENT]", "[unused0]", "[unused1]"]
    assert vocabulary.tokenizer.encode("<num>[ENT]", add_special_tokens=False).ids == [5, 6]


def test_special_tokens_in_the_texts_are_not_trained_on() -> None:
    assert trained("ab <num> [SEP]" * 3, special=("<num>",)).pieces[6:] == ["a", "b", "##a", "##b", "ab"]


def test_a_cased_vocabulary_tells_capitals_apart() -> None:
    assert {"Ab", "ab"} <= set(trained("Ab Ab ab ab", cased=True).pieces)
    assert {"Ab", "AB"}.isdisjoint(trained("Ab Ab ab ab").pieces)


@pytest.mark.parametrize(
    ("cased", "accents", "piece"),
    [
        (False, "auto", "cafe"),
        (True, "auto", "Café"),
        (False, "keep", "café"),
        (True, "keep", "Café"),
        (False, "strip", "cafe"),
        (True, "strip", "Cafe"),
    ],
)
def test_accents_go_with_the_capitals_unless_said_otherwise(cased: bool, accents: str, piece: str) -> None:
    vocabulary = trained("Café Café", cased=cased, accents=Accents(accents))
    assert vocabulary.pieces[-1] == piece
    assert vocabulary.tokenizer.encode("Café", add_special_tokens=False).tokens == [piece]


def test_a_pair_must_occur_min_frequency_times() -> None:
    assert "ab" not in trained("ab ab", min_frequency=3).pieces
    assert "ab" in trained("ab ab ab", min_frequency=3).pieces


def test_the_rarest_characters_are_left_out_with_their_words() -> None:
    vocabulary = trained("aa aa ab ac", alphabet=2, min_frequency=1)
    assert vocabulary.pieces[5:] == ["a", "b", "##a", "##b", "aa", "ab"]  # b before c: equally rare
    assert (vocabulary.counts.characters_left_out, vocabulary.counts.words_left_out) == (1, 1)
    assert vocabulary.notes[-1] == Naming("1 of 4", "[UNK]")
    assert vocabulary.tokenizer.encode("ac", add_special_tokens=False).tokens == ["[UNK]"]


def test_words_that_the_tokenizer_gives_up_on_are_not_trained_on() -> None:
    longest, longer = "ab" * (LONGEST_WORD // 2), "cd" * (LONGEST_WORD // 2) + "c"
    vocabulary = trained(f"{longest} {longer}", min_frequency=1, size=500)
    assert longest in vocabulary.pieces
    assert "c" not in vocabulary.pieces
    assert vocabulary.counts.words_left_out == 1


def test_ascii_characters_have_pieces_even_where_the_texts_have_none() -> None:
    pieces = trained("ab", ascii=True, size=200).pieces
    assert {"=", "q", "##q", "7", "##7", "~"} <= set(pieces)
    assert {"Q", "##=", " "}.isdisjoint(pieces)
    assert {"Q", "##Q"} <= set(trained("ab", ascii=True, size=200, cased=True).pieces)
    assert (
        len(pieces) == 5 + 68 + 36
    )  # 94 without the capitals; ## with letters and digits; ab occurs but once


# Letters of several scripts, digits, accents and marks; each is known once it occurs.
_TEXT = st.text("abzABZ09éßøЖжあ京가ا.,!€\u0301 ", max_size=20)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(_TEXT, min_size=1), data=st.data())
def test_a_word_of_known_characters_is_never_unknown(texts: list[str], data: st.DataObject) -> None:
    vocabulary = train_vocabulary(["a", *texts], VocabularyConfig(size=300))
    known = sorted(set("".join(["a", *texts])))
    text = data.draw(st.text(known, max_size=LONGEST_WORD))
    assert "[UNK]" not in vocabulary.tokenizer.encode(text).tokens


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text("abcd ", max_size=20), min_size=1).flatmap(st.permutations))
def test_the_order_of_the_texts_changes_no_piece(texts: list[str]) -> None:
    one = train_vocabulary(["abcd", *texts], VocabularyConfig(size=150))
    other = train_vocabulary([*sorted(texts), "abcd"], VocabularyConfig(size=150))
    assert one.tokenizer.to_str() == other.tokenizer.to_str()


def test_the_tokenizer_neither_cuts_nor_pads() -> None:
    tokenizer = trained("ab").tokenizer
    assert tokenizer.truncation is None
    assert tokenizer.padding is None
    assert len(tokenizer.encode("ab " * 2000)) > 2000


def test_texts_that_give_fewer_pieces_are_a_note_with_the_real_size() -> None:
    vocabulary = trained("ab ab", size=500)
    assert vocabulary.size == len(vocabulary.pieces) == 10
    assert vocabulary.notes[0] == Naming("10 pieces", 500)
    assert trained("ab ab", size=10).notes == ()


def test_words_forgotten_for_want_of_room_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained("a a b c", size=11).notes == ()
    monkeypatch.setattr(WordCounter.__init__, "__kwdefaults__", {"apart": (), "most_words": 2})
    vocabulary = trained("a a b c", size=7)
    assert vocabulary.notes == (Naming("2 of 4", "rare"),)


@pytest.mark.parametrize("texts", [[], [""], ["  \n", "\t"]])
def test_texts_without_a_word_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadInputError, match=f"no word in the {len(texts)} texts"):
        train_vocabulary(texts)


def test_a_size_without_room_for_the_characters_is_refused_with_the_least_that_would_do() -> None:
    message = r"size is 8, and 5 special or unused pieces and the 2 characters .* take 9\. Give a size of 9"
    with pytest.raises(BadInputError, match=message):
        trained("ab", size=8)
    assert trained("ab", size=9).size == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0"),
        ({"size": 5}, r"size is 5.*\b5 pieces"),
        ({"size": 9, "special": ("<x>",), "unused": 3}, "size is 9, and 9 pieces"),
        ({"min_frequency": 0}, "min_frequency is 0"),
        ({"alphabet": 0}, "alphabet is 0; give 1"),
        ({"unused": -1}, "unused is -1; give 0"),
        ({"unused": 10**15}, "larger size"),  # said before they are made
        ({"accents": "none"}, "accents .*'none'.*auto, keep, strip"),
        ({"special": ("[MASK]",)}, r"special token \[MASK\] is there already"),
        ({"special": ("<x>", "<x>")}, "special token <x> is there already"),
        ({"special": ("[unused1]",), "unused": 2}, r"special token \[unused1\] is there already"),
        ({"special": ("two words",)}, "'two words' .*blanks"),
        ({"special": ("",)}, "'' is empty"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        VocabularyConfig(**options)  # type: ignore[arg-type]
