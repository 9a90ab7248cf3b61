"""Growing pieces from word counts."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from nearsay.data import samples
from nearsay.training.bert.vocabulary import grow_pieces


def characters_of(words: dict[str, int]) -> list[str]:
    """The pieces to start from: each first character, then the others with ##."""
    return sorted({word[0] for word in words}) + sorted({f"##{one}" for word in words for one in word[1:]})


def joined_by_recounting(
    first: list[str], words: dict[str, int], size: int, min_frequency: int
) -> tuple[list[str], int]:
    """The same by counting all pairs anew each time; and how many pieces there were at the first tie."""
    grown, unambiguous = list(first), size
    spelled = {word: [word[0], *(f"##{one}" for one in word[1:])] for word in words}
    while len(grown) < size:
        counts: Counter[tuple[str, str]] = Counter()
        for word, spelling in spelled.items():
            for pair in pairwise(spelling):
                counts[pair] += words[word]
        most = max(counts.values(), default=0)
        if most < min_frequency:
            break
        tied = [pair for pair in counts if counts[pair] == most]
        if len(tied) > 1:
            unambiguous = min(unambiguous, len(grown))
        left, right = min(tied, key=lambda pair: (grown.index(pair[0]), grown.index(pair[1])))
        piece = left + right.removeprefix("##")
        if piece not in grown:
            grown.append(piece)
        for spelling in spelled.values():
            place = 0
            while place < len(spelling) - 1:
                if (spelling[place], spelling[place + 1]) == (left, right):
                    spelling[place : place + 2] = [piece]
                place += 1
    return grown, unambiguous


def test_the_pieces_of_four_words_are_those_worked_out_by_hand() -> None:
    # low and lower 7 times, newest 6, widest 3. ##e##s and ##s##t stand 9 times each: ##e has the lower
    # number. Then ##es##t 9; lo and low 7; and n##e, ##e##w, ##w##est 6 each: n has the lowest, then ##w.
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    first = ["l", "n", "w", *(f"##{one}" for one in "deiorstw")]
    grown = grow_pieces(first, words, size=18, min_frequency=1)
    assert grown[11:] == ["##es", "##est", "lo", "low", "ne", "##west", "newest"]


def test_a_pair_of_one_character_is_joined_from_the_left() -> None:
    # a##a once and ##a##a twice in each aaaa: ##aa first, once in a word; a##aa and ##aa##a then once each.
    grown = grow_pieces(["a", "##a"], {"aaaa": 3}, size=4, min_frequency=1)
    assert grown == ["a", "##a", "##aa", "a" + "aa"]


def test_a_piece_that_is_there_already_gets_no_second_number() -> None:
    words = {"ab": 3, "abc": 2}
    grown = grow_pieces(["ab", *characters_of(words)], words, size=50, min_frequency=1)
    assert grown == ["ab", "a", "##b", "##c", "abc"]


def test_pairs_rarer_than_the_minimum_stay_apart() -> None:
    words = {"no": 3, "on": 2}
    assert grow_pieces(characters_of(words), words, size=50, min_frequency=3)[4:] == ["no"]
    assert grow_pieces(characters_of(words), words, size=50, min_frequency=2)[4:] == ["no", "on"]


def test_nothing_is_joined_when_there_is_no_room_or_no_word() -> None:
    assert grow_pieces(["a", "##b"], {"ab": 9}, size=2, min_frequency=1) == ["a", "##b"]
    assert grow_pieces(["a", "##b"], {}, size=9, min_frequency=1) == ["a", "##b"]


@settings(max_examples=150, deadline=None)
@given(
    words=st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 9), max_size=12),
    room=st.integers(0, 30),
    min_frequency=st.integers(1, 6),
)
def test_the_pieces_are_those_of_counting_all_pairs_anew(
    words: dict[str, int], room: int, min_frequency: int
) -> None:
    first = characters_of(words)
    size = len(first) + room
    expected, _ = joined_by_recounting(first, words, size, min_frequency)
    assert grow_pieces(first, words, size=size, min_frequency=min_frequency) == expected


@given(words=st.dictionaries(st.text("abcd", min_size=1, max_size=6), st.integers(1, 3), min_size=2))
def test_the_order_of_the_words_means_nothing(words: dict[str, int]) -> None:
    first = characters_of(words)
    turned = dict(reversed(words.items()))
    assert grow_pieces(first, words, size=40, min_frequency=1) == grow_pieces(
        first, turned, size=40, min_frequency=1
    )


@pytest.fixture(scope="module")
def sample_words() -> dict[str, int]:
    """The words of the sample corpus that do without punctuation."""
    rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    text = " ".join(json.loads(row)["text"] for row in rows)
    cut = BertPreTokenizer().pre_tokenize_str(BertNormalizer().normalize_str(text))
    return dict(Counter(word for word, _ in cut))


@pytest.mark.long
def test_the_pieces_are_those_of_tokenizers_until_pairs_tie(sample_words: dict[str, int]) -> None:
    first = sorted(set("".join(sample_words))) + [
        piece for piece in characters_of(sample_words) if piece.startswith("##")
    ]
    expected, unambiguous = joined_by_recounting(first, sample_words, len(first) + 50, 2)
    assert unambiguous > len(first) + 40
    size = unambiguous
    trained = Tokenizer(WordPiece())
    trained.pre_tokenizer = BertPreTokenizer()
    trained.train_from_iterator(
        (f"{word} " * count for word, count in sample_words.items()),
        WordPieceTrainer(vocab_size=size, min_frequency=2, show_progress=False),
    )
    grown = grow_pieces(first, sample_words, size=size, min_frequency=2)
    assert set(grown) == set(trained.get_vocab())
    assert grown == expected[:size]
