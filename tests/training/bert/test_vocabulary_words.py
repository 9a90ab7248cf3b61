"""Counting the words of texts."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from nearsay.data.errors import BadInputError
from nearsay.training.bert import vocabulary
from nearsay.training.bert.vocabulary import WordCounter


def counter(**options: object) -> WordCounter:
    return WordCounter(BertNormalizer(), BertPreTokenizer(), **options)  # type: ignore[arg-type]


def test_words_are_lowercased_and_marks_stand_alone() -> None:
    counting = counter()
    counting.add("The cat's cat, the CAT.")
    assert counting.words() == {"the": 2, "cat": 3, "'": 1, "s": 1, ",": 1, ".": 1}


# Blanks of all kinds, characters that BERT takes out, marks, Chinese, accents, both forms of é, a dotted I.
@given(
    st.lists(
        st.text("abAB é\u0301\u00e9İßſ\x1c\x85\x0b\u00a0\u2028\u200b\u00ad\t\n\r.,-东京ª²½Ⅷ🙂", max_size=30)
    )
)
def test_counting_by_blanks_first_gives_the_words_of_the_whole_texts(texts: list[str]) -> None:
    counting, expected = counter(), Counter[str]()
    for text in texts:
        counting.add(text)
        cut = BertPreTokenizer().pre_tokenize_str(BertNormalizer().normalize_str(text))
        expected.update(word for word, _ in cut)
    assert counting.words() == expected


def test_words_are_the_same_when_strings_are_cut_before_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word{number % 7} other{number % 5}" for number in range(100)]
    at_once, often = counter(), counter()
    for text in texts:
        at_once.add(text)
    expected = dict(at_once.words())
    monkeypatch.setattr(vocabulary, "_MOST_SPELLINGS", 3)
    for text in texts:
        often.add(text)
    assert often.words() == expected
    assert sum(expected.values()) == 200


def test_the_rarest_words_are_forgotten_when_there_are_too_many() -> None:
    counting = counter(most_words=4)
    counting.add("a a a b b c c d e")
    assert counting.words() == {"a": 3, "b": 2}  # half of four; of b and c, equally frequent, the first
    assert counting.forgotten == 4


def test_special_tokens_are_no_words_and_part_those_beside_them() -> None:
    counting = counter(apart=("[MASK]", "<n>"))
    counting.add("in[MASK]to <n> [mask]")
    assert counting.words() == {"in": 1, "to": 1, "[": 1, "mask": 1, "]": 1}


def test_the_hash_tells_texts_from_the_same_characters_cut_elsewhere() -> None:
    one, two = counter(), counter()
    for text in ("ab", "c"):
        one.add(text)
    for text in ("a", "bc"):
        two.add(text)
    assert one.sha256 != two.sha256
    by_hand = (2).to_bytes(8, "little") + b"ab" + (1).to_bytes(8, "little") + b"c"
    assert one.sha256 == hashlib.sha256(by_hand).hexdigest()


def test_half_a_character_is_refused_by_the_number_of_its_text() -> None:
    counting = counter()
    counting.add("good")
    with pytest.raises(BadInputError, match=r"text 2 .*half a character"):
        counting.add("bad \ud800")
