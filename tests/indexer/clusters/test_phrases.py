"""Noun phrases are told from others by what stands around their words."""

import pytest

from nearsay.indexer.clusters.phrases import PhraseCounter, PhraseCounts, singular

CARDS = ["I want to track my card delivery.", "Where is the card delivery?", "The card deliveries are late."]


def counted(*clusters: list[str]) -> PhraseCounts:
    counter = PhraseCounter()
    for texts in clusters:
        counter.add(texts)
    return counter.counted()


def test_a_phrase_is_up_to_three_words_between_function_words_and_signs() -> None:
    (found,) = counted(["the lost virtual debit card, in London"]).counts
    assert set(found) == {
        *("lost", "virtual", "debit", "card", "london", "lost virtual", "virtual debit", "debit card"),
        *("lost virtual debit", "virtual debit card"),
    }


def test_singular_and_plural_are_counted_as_one_and_once_a_passage() -> None:
    (found,) = counted([*CARDS, "card deliveries, a card delivery"]).counts
    assert found["card delivery"] == 4


def test_of_a_larger_cluster_what_stands_in_one_passage_is_left_out() -> None:
    (found,) = counted([*CARDS, "my umbrella"]).counts
    assert found == {"card": 3, "delivery": 3, "card delivery": 3}


def test_of_joins_two_nouns_to_a_phrase() -> None:
    found = counted(["the source of funds", "a source of funds"])
    assert found.counts[0]["source ~of fund"] == 2
    assert found.written("source ~of fund") == "source of funds"


def test_what_follows_the_is_a_nouns_and_what_follows_to_is_none() -> None:
    texts = ["to activate my card", "I activate the card", "we activate a card", "you activate it"]
    found = counted(texts)
    # An ending that tells nothing is half a noun in 4 uses more. activate: never a head, 8 times in a verb's
    # place (4 behind "to" or a pronoun, 4 before an object): 2 / (8 + 4), and 4 of 4 + 4 uses are no verb's.
    assert found.noun_share("activate") == pytest.approx(2 / 12 * 4 / 8)
    # card: 3 times a head, (3 + 2) / (3 + 4), and never used as a verb.
    assert found.noun_share("card") == pytest.approx(5 / 7)


def test_an_adjective_is_no_noun_but_may_begin_one() -> None:
    texts = ["a major problem", "the major change", "my major problem", "in major cities", "the problem"]
    found = counted(texts)
    assert found.noun_share("major") < 0.5 < found.noun_share("problem")
    assert found.noun_share("major problem") > 0.5


@pytest.mark.parametrize(
    ("texts", "key", "written"),
    [
        (["GPU memory is full", "Gpus", "The GPU and a GPU"], "gpu", "GPU"),
        (["She is in New York", "New York City", "we love New York"], "new york", "New York"),
        (["Transfers failed", "Transfers are late", "Transfers"], "transfer", "transfers"),
        (["Oil Prices Fall After Strike", "the price of Oil. Oil prices fell"], "oil price", "oil prices"),
        (["the US economy", "a US economy"], "us economy", "US economy"),
    ],
)
def test_a_phrase_is_written_as_it_mostly_is_where_no_sentence_begins(
    texts: list[str], key: str, written: str
) -> None:
    assert counted(texts).written(key) == written


def test_other_languages_function_words_end_phrases_too() -> None:
    german = ["Wie kann ich meine verlorene Karte sperren?", "Die verlorene Karte ist wieder da"]
    french = ["le taux de change est trop haut", "quel est le taux de change ?"]
    first, second = counted(german, french).counts
    assert first["verlorene karte"] == 2
    assert not {"meine", "ist", "wieder"} & first.keys()
    assert second["taux ~de change"] == 2


def test_chinese_is_cut_into_characters_and_written_without_spaces() -> None:
    found = counted(["机器翻译的质量", "我们用机器翻译", "神经机器翻译"])
    assert found.counts[0]["机 器 翻 译"] == 3
    assert found.written("机 器 翻 译") == "机器翻译"
    assert not any("的" in key for key in found.counts[0])


@pytest.mark.parametrize(
    ("word", "one"),
    [
        *[("cards", "card"), ("fees", "fee"), ("currencies", "currency"), ("classes", "class")],
        *[
            ("boxes", "box"),
            ("searches", "search"),
            ("gas", "gas"),
            ("analysis", "analysis"),
            ("glass", "glass"),
        ],
    ],
)
def test_singular_takes_the_plurals_ending_away(word: str, one: str) -> None:
    assert singular(word) == one
