import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.evaluation.proxies.panel import perturbed

TEXT = "The old Lighthouse keeper walked down to the harbour every Sunday morning"


def test_the_same_seed_gives_the_same_copy_and_another_one_another() -> None:
    copies = [perturbed(TEXT, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert copies[0] == copies[1] != copies[2]


def test_nothing_is_changed_when_all_is_off_but_white_space() -> None:
    assert (
        perturbed(f"  {TEXT}\n again ", np.random.default_rng(0), typos=0, drops=0, case=0) == f"{TEXT} again"
    )


def test_words_are_lost_and_the_last_one_stays() -> None:
    assert perturbed(TEXT, np.random.default_rng(0), typos=0, drops=1, case=0) == "morning"
    half = perturbed(TEXT * 20, np.random.default_rng(0), typos=0, drops=0.5, case=0)
    assert 0.4 < len(half.split()) / len((TEXT * 20).split()) < 0.6


def test_capitals_are_lost() -> None:
    assert perturbed(TEXT, np.random.default_rng(0), typos=0, drops=0, case=1) == TEXT.lower()


def test_a_typo_moves_loses_or_replaces_one_letter_of_words_of_three_or_more() -> None:
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        word, short = perturbed("abcd ab", random, typos=1, drops=0, case=0).split()
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
