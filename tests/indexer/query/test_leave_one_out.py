import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.indexer.query import explain
from nearsay.indexer.query.explain import leave_out_passage_words, leave_out_query_words

# The words encoder counts words by their letters: the query "oak" points along the axis of three letters.
QUERY = np.eye(8)[2]


def test_a_words_part_is_what_the_score_loses_without_it(words: WordsEncoder) -> None:
    # (0, 0, 1, 1, …): cosine 1/√2; without "oak" 0, without "tree" 1.
    (shared,) = leave_out_passage_words(words, QUERY, ["oak tree"], [0])
    assert shared.score == pytest.approx(0.5**0.5)
    assert [(part.start, part.end) for part in shared.parts] == [(0, 3), (4, 8)]
    assert [part.share for part in shared.parts] == pytest.approx([0.5**0.5, 0.5**0.5 - 1])
    assert shared.rest == pytest.approx(0.5**0.5 - (2 * 0.5**0.5 - 1))
    assert shared.seen == 8


def test_a_word_that_is_said_twice_costs_little_and_the_rest_holds_it(words: WordsEncoder) -> None:
    (shared,) = leave_out_passage_words(words, QUERY, ["oak elm"], [0])
    assert [part.share for part in shared.parts] == pytest.approx([0, 0])
    assert shared.rest == pytest.approx(1)


def test_an_only_word_has_all_of_the_score(words: WordsEncoder) -> None:
    (shared,) = leave_out_passage_words(words, QUERY, ["oak"], [0])
    assert [part.share for part in shared.parts] == pytest.approx([1])
    assert shared.rest == pytest.approx(0)


def test_each_passage_has_its_own_words(words: WordsEncoder) -> None:
    texts = ["oak tree", "tree", "an oak tree"]
    together = leave_out_passage_words(words, QUERY, texts, [0, 0, 0])
    alone = [leave_out_passage_words(words, QUERY, [text], [0])[0] for text in texts]
    assert together == alone


def test_a_text_beyond_the_limit_is_explained_as_far_as_it_was_taken(words: WordsEncoder) -> None:
    text = "oak " * 16 + "tree"
    (shared,) = leave_out_passage_words(words, QUERY, [text], [0])
    assert len(shared.parts) == 16
    assert shared.seen == 63
    assert shared.score == pytest.approx(1)
    # Leaving a word out must not let the next one in.
    assert [part.share for part in shared.parts] == pytest.approx([0] * 16)


def test_a_small_budget_leaves_neighbours_out_together_but_never_over_the_title(
    words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_TOKENS", 18)
    text = "oak a b tree an elm"
    (shared,) = leave_out_passage_words(words, QUERY, [text], [len("oak a b ")])
    assert [text[part.start : part.end] for part in shared.parts] == ["oak a", "b", "tree an", "elm"]
    assert sum(part.share for part in shared.parts) + shared.rest == pytest.approx(shared.score)


def test_the_querys_words_are_left_out_in_turn(words: WordsEncoder) -> None:
    passages = np.eye(8)[[2, 3]]
    first, second = leave_out_query_words(words, "oak tree", passages)
    assert [part.share for part in first.parts] == pytest.approx([0.5**0.5, 0.5**0.5 - 1])
    assert [part.share for part in second.parts] == pytest.approx([0.5**0.5 - 1, 0.5**0.5])
    assert first.score == pytest.approx(0.5**0.5)
