"""Questions that a corpus asks of itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.adaptation.pseudo_queries import (
    QueryKind,
    UnlabelledCorpus,
    damaged,
    draw_pseudo_queries,
)


def corpus_of(bodies: list[str], titles: list[str] | None = None) -> UnlabelledCorpus:
    named = titles or [""] * len(bodies)
    texts = tuple(f"{title} {body}".strip() for title, body in zip(named, bodies, strict=True))
    return UnlabelledCorpus("made", texts, tuple(named), tuple(f"d{n}" for n in range(len(bodies))))


def bodies(count: int) -> list[str]:
    return [
        f"The river number {n} floods the lower meadow. Nobody crosses bridge {n} before noon then."
        for n in range(count)
    ]


def test_every_pseudo_query_stands_in_its_own_passage() -> None:
    corpus = corpus_of(bodies(40), [f"River {n}" for n in range(40)])
    drawn = draw_pseudo_queries(corpus, 40, 0)
    assert {query.kind for query in drawn} == set(QueryKind)
    assert sorted(query.passage for query in drawn) == list(range(40))
    for query in drawn:
        there = corpus.texts[query.passage].lower().replace(".", " ").split()
        assert set(query.text.lower().replace(".", " ").split()) <= set(there)


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    corpus = corpus_of(bodies(40))
    first, again, other = (draw_pseudo_queries(corpus, 5, seed) for seed in (1, 1, 2))
    assert first == again
    assert len(first) == 5
    assert first != other


def test_a_text_without_sentences_is_asked_for_in_stretches_of_words() -> None:
    texts = [" ".join(f"w{n}x{k}" for k in range(60)) for n in range(20)]
    drawn = draw_pseudo_queries(corpus_of(texts), 100, 0)
    lengths = {len(query.text.split()) for query in drawn if query.kind is QueryKind.SENTENCE}
    assert max(lengths) <= 24


def test_a_corpus_too_small_or_without_running_text_is_refused() -> None:
    with pytest.raises(BadInputError, match="holds 3 passages"):
        corpus_of(bodies(3))
    with pytest.raises(BadInputError, match="no sentence"):
        draw_pseudo_queries(corpus_of(["yes no"] * 20), 10, 0)


@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=30), st.integers(0, 99))
def test_a_damaged_text_keeps_some_of_its_words_in_their_order(words: list[str], seed: int) -> None:
    found = damaged(" ".join(words), np.random.default_rng(seed)).split()
    assert found
    rest = iter(words)
    assert all(word in rest for word in found)


def test_a_quarter_stays_whole_and_most_lose_words() -> None:
    text = " ".join(f"w{n}" for n in range(20))
    random = np.random.default_rng(0)
    lengths = [len(damaged(text, random).split()) for _ in range(2000)]
    assert 0.22 < np.mean([length == 20 for length in lengths]) < 0.28
    assert np.mean([length < 20 for length in lengths]) > 0.65
