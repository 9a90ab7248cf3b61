import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.training.evaluation.proxies.corpus import UnjudgedCorpus, UnjudgedDocument, corpus_of_documents
from nearsay.training.evaluation.proxies.panel import (
    Proxy,
    UnjudgedTexts,
    adjacent_passages,
    body_without_title,
    duplicates_found,
    encoder_panel,
    lexical_agreement,
    lexical_neighbours,
    title_to_body,
)


def units(*degrees: float) -> np.ndarray:
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def test_the_next_passage_is_ranked_among_those_of_other_documents() -> None:
    # Passage 0's next is 10° away, and none elsewhere is nearer: rank 1. Passage 2's next is 60° away, and
    # of the two elsewhere one is nearer: rank 2.
    found = adjacent_passages(units(0, 10, 40, 100), np.array([0, 0, 1, 1]))
    assert found is not None
    assert found.each.tolist() == [1, 1 / 3]
    assert found.chance == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_passages_with_another_between_them_are_not_ranked() -> None:
    # Of the first document's passages 0, 1 and 3, only 0 and 1 follow each other.
    places = np.array([0, 1, 3, 0, 1])
    found = adjacent_passages(units(0, 10, 120, 40, 100), np.array([0, 0, 0, 1, 1]), places)
    assert found is not None
    assert found.each.tolist() == [1, 1 / 3]  # of 40°, the next is 60° away; 0° and 10° are nearer
    assert adjacent_passages(units(0, 10, 40), np.array([0, 0, 1]), np.array([0, 2, 0])) is None


def test_a_repeated_passage_makes_no_neighbours_of_those_around_it() -> None:
    lines = "a cat sat here", "parrots whistle", "the horse ran away", "no elephants were seen"
    corpus = UnjudgedCorpus(
        (
            UnjudgedDocument("", "", (lines[0], lines[1])),
            UnjudgedDocument("", "", (lines[2], lines[1], lines[3])),
        ),
        (),
    )
    found = {each.proxy: each for each in encoder_panel(WordsEncoder(), UnjudgedTexts(corpus))}
    assert found[Proxy.ADJACENT].items == 1


def test_vectors_that_are_all_the_same_rank_last() -> None:
    found = adjacent_passages(units(5, 5, 5, 5), np.array([0, 0, 1, 1]))
    assert found is not None
    assert found.each.tolist() == [1 / 3, 1 / 3]


def test_vectors_drawn_by_chance_reach_what_chance_says() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(1500, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = adjacent_passages(vectors, np.arange(1500) // 3, others=19)
    assert found is not None
    assert found.chance == pytest.approx(sum(1 / rank for rank in range(1, 21)) / 20)
    assert found.figure == pytest.approx(found.chance, abs=0.03)
    bodies = vectors[:100]
    titled = title_to_body(vectors[100:1400], bodies, np.arange(1300) % 100)
    assert titled is not None
    assert titled.figure == pytest.approx(titled.chance, abs=0.02)
    rows = np.arange(300)
    lexical = [np.sort(random.choice(np.delete(rows, row), 10, replace=False)) for row in rows]
    agreed = lexical_agreement(vectors[:300], rows, lexical)
    assert agreed is not None
    assert agreed.figure == pytest.approx(agreed.chance, abs=0.015)


def test_a_title_finds_its_own_body_at_a_rank() -> None:
    found = title_to_body(units(0, 90), units(10, 20, 80), np.array([1, 2]))
    assert found is not None
    assert found.each.tolist() == [1 / 2, 1]
    assert found.chance == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_a_body_that_begins_with_its_title_loses_it() -> None:
    assert body_without_title("On Cats", "# On cats\n\nCats sleep.") == "Cats sleep."
    assert body_without_title("On Cats", "Cats sleep.") == "Cats sleep."
    assert body_without_title("", "Cats sleep.") == "Cats sleep."


def test_a_copy_is_found_when_its_own_passage_is_nearest() -> None:
    found = duplicates_found(units(1, 40, 91), units(0, 90, 89))
    assert found is not None
    assert found.each.tolist() == [1, 0, 0]  # 40° is nearer to 0° than to 90°, and 91° to 90°
    assert found.chance == pytest.approx(1 / 3)


def test_agreement_is_the_share_of_the_words_neighbours() -> None:
    lexical = [lexical_neighbours(np.array([9.0, 2.0, 0.0, 1.0]), 0)]
    assert lexical[0].tolist() == [1, 3]  # without itself, and what shares no word
    agreed = lexical_agreement(units(0, 10, 20, 90), np.array([0]), lexical)
    assert agreed is not None
    assert agreed.each.tolist() == [1 / 2]  # its two nearest are 1 and 2
    assert agreed.chance == pytest.approx(2 / 3)


def test_where_there_is_nothing_to_measure_there_is_no_figure() -> None:
    none = np.empty((0, 2), dtype=np.float32)
    assert adjacent_passages(units(0, 10), np.array([0, 1])) is None
    assert adjacent_passages(units(0, 10), np.array([0, 0])) is None
    assert title_to_body(none, none, np.array([], dtype=np.int64)) is None
    assert duplicates_found(units(0), units(0)) is None
    assert lexical_agreement(units(0, 1), np.array([0]), [np.array([], dtype=np.int64)]) is None


def test_every_encoder_gets_the_same_texts_and_every_proxy_says_what_it_does_not_show() -> None:
    animals = ["cat", "horse", "parrot", "elephant"]
    documents = [
        Document(f"One {animal} is here. " * 12 + f"The {animal} sleeps. " * 12, title=f"On {animal}s")
        for animal in animals
    ]
    texts = UnjudgedTexts(corpus_of_documents(documents, most=10, seed=0), seed=0)
    first, second = WordsEncoder(max_tokens=100), WordsEncoder(name="other", max_tokens=100)
    calls: list[tuple[int, int]] = []
    panels = [
        encoder_panel(first, texts, progress=lambda done, total: calls.append((done, total))),
        encoder_panel(second, texts),
    ]
    assert first.encoded == second.encoded
    assert calls[-1] == (len(texts), len(texts))
    for proxy, found, other in zip(Proxy, *panels, strict=True):
        assert found.proxy is other.proxy is proxy
        assert found.figure is not None
        assert found.figure == other.figure
        assert 0 <= found.figure <= 1
        assert found.measure
        assert found.does_not_show.endswith(".")
    assert len(texts.titles) == len(texts.bodies) == 4


def test_a_corpus_without_titles_has_no_figure_for_them() -> None:
    documents = [Document("a cat sat here"), Document("parrots whistle melodies")]
    panel = encoder_panel(
        WordsEncoder(), UnjudgedTexts(corpus_of_documents(documents, most=5, seed=0), seed=0)
    )
    figures = {each.proxy: each.figure for each in panel}
    assert figures[Proxy.TITLES] is None
    assert figures[Proxy.ADJACENT] is None
    assert figures[Proxy.DUPLICATES] is not None
