"""Clusters are named by the words that tell them from the others."""

from collections.abc import Sequence
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearsay.indexer.clusters.names import count_terms, name_clusters, terms_by_cluster, terms_of, weighed
from nearsay.indexer.clusters.phrases import PhraseCounter

HOLIDAYS = [
    "How many days of annual leave may I carry?",
    "Annual leave that was not taken in summer",
    "Holidays: ask for annual leave early",
]
PAY = ["When is my salary paid?", "The salary was paid twice", "Salary slips come by post"]


def test_a_text_gives_its_words_and_the_pairs_that_stand_beside_each_other() -> None:
    assert terms_of("The Neural networks of Zürich's zoo, 1999 neural") == {
        *("neural", "networks", "neural networks", "zürich", "zoo", "zürich zoo")
    }


def test_neither_signs_nor_function_words_nor_numbers_stand_inside_a_phrase() -> None:
    assert terms_of("red, green and blue 7 yellow") == {"red", "green", "blue", "yellow"}


def test_words_with_signs_inside_stay_whole() -> None:
    assert terms_of("pre-trained C++ at&t isn't") == {
        *("pre-trained", "c++", "at&t", "pre-trained c++", "c++ at&t")
    }


def test_a_term_weighs_as_the_formula_says() -> None:
    # Shares: cluster 0 has cat 2/2, dog 1/2 → kept: cat alone stands twice; cluster 1 has dog 2/2.
    counted = count_terms([["cat dog", "cat"], ["dog", "dog, dog"]])
    assert counted.counts == ({"cat": 2}, {"dog": 2})
    (cat,), (dog,) = weighed(counted)
    # f = 1, A = (1 + 1) / 2 = 1
    assert cat.weight == pytest.approx(1.0 * log(1 + 1 / 1))
    assert (dog.count, dog.lift) == (2, 2.0)


def test_what_stands_in_every_cluster_weighs_less() -> None:
    # bird: shares 1 and 1, f = 2; A = ((1 + 1) + (1 + 1)) / 2 = 2.
    first, _ = weighed(count_terms([["bird. cat"] * 3, ["bird. dog"] * 3]))
    assert {each.term: (each.weight, each.lift) for each in first} == {
        "cat": (pytest.approx(log(1 + 2 / 1)), 2.0),
        "bird": (pytest.approx(log(1 + 2 / 2)), 1.0),
    }
    assert [each.term for each in first] == ["cat", "bird"]


def test_a_phrase_takes_the_place_of_its_words_and_nothing_is_said_twice() -> None:
    first, second = terms_by_cluster([HOLIDAYS, PAY])
    assert first[0] == "annual leave"
    assert not {"annual", "leave"} & set(first)
    assert second[:1] == ["salary"]


def test_words_of_one_stem_are_one() -> None:
    (first, _) = terms_by_cluster([["tagging. taggers. summarization. summaries. trees"] * 3, ["sky"] * 3])
    assert len(first) == 3


def test_singular_and_plural_are_one() -> None:
    (first, _) = terms_by_cluster([["card. cards. box. boxes"] * 3, ["tree"] * 3])
    assert len(first) == 2
    assert {first[0], first[1]} <= {"card", "cards", "box", "boxes"}


def test_words_that_stand_in_all_clusters_alike_are_no_names_whatever_the_language() -> None:
    def of(*nouns: str) -> list[str]:
        return [f"der die und das {noun}. und der {noun}" for noun in nouns for _ in range(4)]

    found = terms_by_cluster([of("hund"), of("brot"), of("haus"), of("geld")])
    assert [terms[0] for terms in found] == ["hund", "brot", "haus", "geld"]
    assert not {"der", "die", "und", "das"} & {term for terms in found for term in terms}


def test_one_cluster_is_named_all_the_same() -> None:
    assert terms_by_cluster([["cat food", "cat food"]]) == [["cat food"]]


@given(st.lists(st.sampled_from(HOLIDAYS + PAY), min_size=1, max_size=8), st.randoms())
@settings(max_examples=30)
def test_the_order_of_passages_changes_nothing(texts: list[str], random: object) -> None:
    again = list(texts)
    random.shuffle(again)  # type: ignore[attr-defined]
    assert terms_by_cluster([texts, PAY]) == terms_by_cluster([again, PAY[::-1]])


def named(*clusters: list[str], **options: object) -> list[str]:
    counter = PhraseCounter()
    for texts in clusters:
        counter.add(texts)
    fallbacks = [f"first passage of {place}" for place in range(len(clusters))]
    return name_clusters(counter.counted(), fallbacks, **options)  # type: ignore[arg-type]


def test_a_name_is_the_phrase_that_is_typical_of_the_cluster() -> None:
    assert named(HOLIDAYS, PAY) == ["annual leave", "salary"]


def test_a_cluster_without_phrases_gets_the_fallback() -> None:
    assert named(["1 2 3", "!!"], PAY) == ["first passage of 0", "salary"]
    assert name_clusters(PhraseCounter().counted(), []) == []


def test_no_phrase_names_two_clusters_and_who_it_fits_best_has_it() -> None:
    many = ["the exchange rate", "an exchange rate"] * 5
    few = ["the exchange rate", "my holiday rate", "a holiday rate", "the holiday rate"]
    assert named(many, few) == ["exchange rate", "holiday rate"]


def test_words_inside_a_longer_phrase_do_not_name_a_cluster() -> None:
    assert named(["the machine translation", "a machine translation"] * 2, PAY)[0] == "machine translation"


def test_the_encoder_decides_between_phrases_that_are_as_common() -> None:
    texts = [["a cat, a dog"] * 4, ["an oak, a fir"] * 4]
    means = {"cat": (1.0, 0.0), "oak": (0.0, 1.0)}

    def encode(phrases: Sequence[str]) -> NDArray[np.float32]:
        return np.array([means.get(each, (0.6, 0.8)) for each in phrases], dtype=np.float32)

    assert named(*texts, centres=np.eye(2, dtype=np.float32), encode=encode) == ["cat", "oak"]
    means = {"dog": (1.0, 0.0), "fir": (0.0, 1.0)}
    assert named(*texts, centres=np.eye(2, dtype=np.float32), encode=encode) == ["dog", "fir"]


def test_a_second_phrase_follows_where_the_first_means_another_cluster_as_well() -> None:
    texts = [["the card. my fee"] * 4, ["the card. my card. the pin"] * 4]
    means = {"card": (0.6, 0.8), "fee": (1.0, 0.0), "pin": (0.0, 1.0)}
    encode = lambda phrases: np.array([means[each] for each in phrases], dtype=np.float32)  # noqa: E731
    centres = np.eye(2, dtype=np.float32)
    assert named(*texts, centres=centres, encode=encode) == ["fee", "pin"]


def test_names_do_not_depend_on_the_order_of_the_passages() -> None:
    assert named(HOLIDAYS, PAY) == named(HOLIDAYS[::-1], PAY[::-1])
