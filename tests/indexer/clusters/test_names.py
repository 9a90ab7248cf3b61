"""Clusters are named by the words that tell them from the others."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.indexer.clusters.names import names_of, terms_by_cluster
from nearsay.indexer.clusters.terms import count_terms, terms_of, weighed

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


def test_a_cluster_without_words_gets_the_fallback() -> None:
    assert terms_by_cluster([["1 2 3", "!!"], ["word"] * 2]) == [[], ["word"]]
    assert names_of([[], [], ["one"]], ["first passage", "", ""]) == ["first passage", "without words", "one"]


def test_names_tell_neighbouring_clusters_apart() -> None:
    terms = [
        ["mt", "bleu", "nmt", "parallel"],
        ["mt", "nmt", "pronoun", "bleu", "context"],
        ["mt", "bleu", "nmt"],
    ]
    assert names_of(terms, ["", "", ""]) == ["mt, bleu, nmt", "mt, pronoun, context", "mt, bleu, nmt"]


def test_one_cluster_is_named_all_the_same() -> None:
    assert terms_by_cluster([["cat food", "cat food"]]) == [["cat food"]]


@given(st.lists(st.sampled_from(HOLIDAYS + PAY), min_size=1, max_size=8), st.randoms())
@settings(max_examples=30)
def test_the_order_of_passages_changes_nothing(texts: list[str], random: object) -> None:
    again = list(texts)
    random.shuffle(again)  # type: ignore[attr-defined]
    assert terms_by_cluster([texts, PAY]) == terms_by_cluster([again, PAY[::-1]])
