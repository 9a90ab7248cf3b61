import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.proxies.panel import Perturbation, perturbed

TEXT = "The old Lighthouse keeper walked down to the harbour every Sunday morning"


def test_the_same_seed_gives_the_same_copy_and_another_one_another() -> None:
    copies = [perturbed(TEXT, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert copies[0] == copies[1] != copies[2]


def test_nothing_is_changed_when_all_is_off_but_white_space() -> None:
    same = Perturbation(typos=0, drops=0, case=0)
    assert perturbed(f"  {TEXT}\n again ", np.random.default_rng(0), same) == f"{TEXT} again"


def test_words_are_lost_and_the_last_one_stays() -> None:
    all_lost = Perturbation(typos=0, drops=1, case=0)
    assert perturbed(TEXT, np.random.default_rng(0), all_lost) == "morning"
    half = perturbed(TEXT * 20, np.random.default_rng(0), Perturbation(typos=0, drops=0.5, case=0))
    assert 0.4 < len(half.split()) / len((TEXT * 20).split()) < 0.6


def test_capitals_are_lost() -> None:
    assert perturbed(TEXT, np.random.default_rng(0), Perturbation(0, 0, 1)) == TEXT.lower()


def test_a_typo_moves_loses_or_replaces_one_letter_of_words_of_three_or_more() -> None:
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        word, short = perturbed("abcd ab", random, Perturbation(typos=1, drops=0, case=0)).split()
        assert short == "ab"
        if len(word) == 3:
            seen.add("lost")
        elif sorted(word) == list("abcd"):
            seen.add("moved")
        else:
            assert sum(a != b for a, b in zip(word, "abcd", strict=True)) == 1
            seen.add("replaced")
    assert seen == {"lost", "moved", "replaced"}


@given(st.text(min_size=1).filter(str.strip), st.integers(0, 99))
def test_a_copy_of_any_text_is_never_empty_of_words(text: str, seed: int) -> None:
    copy = perturbed(text, np.random.default_rng(seed))
    assert 1 <= len(copy.split()) <= len(text.split())


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"1\.5; .*0 to 1"):
        Perturbation(typos=1.5)
