"""The noise of TSDAE."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.sentence.objectives.word_deletion import deleted_words

SENTENCE = "The ferry left late, so we walked along the harbour wall until it was dark."


class Rolled(np.random.Generator):
    """Chance as the test says it."""

    def __init__(self, numbers: list[float], one: int = 0) -> None:
        super().__init__(np.random.PCG64(0))
        self.numbers, self.one = numbers, one

    def random(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        return np.array(self.numbers)

    def integers(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        return self.one


def test_words_whose_number_is_below_the_ratio_are_deleted() -> None:
    # the  cat  sat  ,  purring  .   with .9 .1 .6 .7 .59 .8: all from .6 up stay
    rolled = Rolled([0.9, 0.1, 0.6, 0.7, 0.59, 0.8])
    assert deleted_words("The cat sat, purring.", rng=rolled) == "The sat,."
    assert deleted_words("The cat sat, purring.", 0.0, rng=rolled) == "The cat sat, purring."


def test_one_word_stays_when_none_would() -> None:
    assert deleted_words("rain fell softly", rng=Rolled([0.1, 0.2, 0.3], one=1)) == "fell"


def test_six_words_in_ten_go() -> None:
    rng = np.random.default_rng(0)
    text = " ".join(["word"] * 100)
    left = [len(deleted_words(text, rng=rng).split()) for _ in range(200)]
    assert 38 < np.mean(left) < 42


def test_letters_of_scripts_without_spaces_are_words() -> None:
    assert deleted_words("雨が降る", rng=Rolled([0.9, 0.1, 0.9, 0.1])) == "雨降"


def test_hyphens_and_apostrophes_hold_a_word_together() -> None:
    assert deleted_words("don't well-known", rng=Rolled([0.1, 0.9])) == "well-known"


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_text_without_words_stays(text: str) -> None:
    assert deleted_words(text, rng=np.random.default_rng(0)) == text


def test_the_same_chance_gives_the_same_words() -> None:
    first, second = (deleted_words(SENTENCE, rng=np.random.default_rng(4)) for _ in range(2))
    assert first == second
    assert first != SENTENCE


@given(st.text(max_size=60), st.floats(0, 0.99), st.integers(0, 2**32 - 1))
def test_what_stays_is_in_order_and_never_nothing(text: str, ratio: float, seed: int) -> None:
    left = deleted_words(text, ratio, rng=np.random.default_rng(seed))
    rest = iter(text)
    assert all(letter in rest for letter in left)  # a subsequence
    assert bool(left.strip()) == bool(text.strip())


def test_a_ratio_that_leaves_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"ratio is 1\.0"):
        deleted_words(SENTENCE, 1.0, rng=np.random.default_rng(0))
