"""Clusters are named by the words that tell them from the others."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearsay.indexer.clusters.names import name_clusters, terms_by_cluster
from nearsay.indexer.clusters.phrases import PhraseCounter, PhraseCounts

HOLIDAYS = [
    "How many days of annual leave may I carry?",
    "Annual leave that was not taken in summer",
    "Holidays: ask for annual leave early",
]
PAY = ["When is my salary paid?", "The salary was paid twice", "Salary slips come by post"]


def counted(*clusters: Sequence[str]) -> PhraseCounts:
    counter = PhraseCounter()
    for texts in clusters:
        counter.add(texts)
    return counter.counted()


def terms(*clusters: Sequence[str]) -> list[list[str]]:
    return terms_by_cluster(counted(*clusters))


def test_what_stands_in_every_cluster_is_no_term_of_one() -> None:
    assert terms(["bird. cat"] * 3, ["bird. dog"] * 3) == [["cat"], ["dog"]]


def test_where_all_clusters_say_the_same_it_is_their_term() -> None:
    assert terms(["bird"] * 3, ["bird"] * 3) == [["bird"], ["bird"]]


def test_a_phrase_takes_the_place_of_its_words_and_nothing_is_said_twice() -> None:
    first, second = terms(HOLIDAYS, PAY)
    assert first[0] == "annual leave"
    assert not {"annual", "leave"} & set(first)
    assert second[:1] == ["salary"]


def test_words_of_one_stem_are_one() -> None:
    (first, _) = terms(["tagging. taggers. summarization. summaries. trees"] * 3, ["sky"] * 3)
    assert len(first) == 3


def test_singular_and_plural_are_one() -> None:
    (first, _) = terms(["card. cards. box. boxes"] * 3, ["tree"] * 3)
    assert len(first) == 2
    assert {first[0], first[1]} <= {"card", "cards", "box", "boxes"}


def test_words_that_stand_in_all_clusters_alike_are_no_names_whatever_the_language() -> None:
    def of(*nouns: str) -> list[str]:
        return [f"der die und das {noun}. und der {noun}" for noun in nouns for _ in range(4)]

    found = terms(of("hund"), of("brot"), of("haus"), of("geld"))
    assert [own[0] for own in found] == ["hund", "brot", "haus", "geld"]
    assert not {"der", "die", "und", "das"} & {term for own in found for term in own}


def test_one_cluster_is_named_all_the_same() -> None:
    assert terms(["cat food", "cat food"]) == [["cat food"]]


@given(st.lists(st.sampled_from(HOLIDAYS + PAY), min_size=1, max_size=8), st.randoms())
@settings(max_examples=30)
def test_the_order_of_passages_changes_nothing(texts: list[str], random: object) -> None:
    again = list(texts)
    random.shuffle(again)  # type: ignore[attr-defined]
    assert terms(texts, PAY) == terms(again, PAY[::-1])


def named(*clusters: list[str], **options: object) -> list[str]:
    fallbacks = [f"first passage of {place}" for place in range(len(clusters))]
    return name_clusters(counted(*clusters), fallbacks, **options)  # type: ignore[arg-type]


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
