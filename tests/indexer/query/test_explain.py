import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.indexer.catalogue.passages import encoded_text
from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.hit import ExplainedPassage, Explanation
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.contributing import TextContributions
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.query_adapter import QueryAdapter
from nearsay.training.sentence.text_encoder import TextKind

PASSAGES = [
    ExplainedPassage(
        "Signing in",
        "If you cannot sign in, choose a new password. The link that we mail works for one hour.",
    ),
    ExplainedPassage("", "The bakery on the corner opens at six. Its rye bread is gone by nine."),
    ExplainedPassage("Slugs", "Snails and slugs eat young leaves at night; a copper ring keeps them off."),
    ExplainedPassage("Kafé", "Naïve früh, 東京の天気 😀 don't 3.50 — ok"),
]
QUERIES = ["I forgot my login credentials", "how do I keep snails off my seedlings?", "where can I buy bread"]


def words_sum(explanation: Explanation) -> float:
    return sum(word.share for word in (*explanation.words, *explanation.title)) + explanation.rest


@pytest.fixture(scope="module")
def bundled() -> Encoder:
    return Encoder.load(device="cpu", precision=Precision.FLOAT32)


def searched(encoder: Encoder, query: str) -> list[ExplainedPassage]:
    """The passages with the scores that a search reports: of vectors made in other company, one alone."""
    vectors = encoder.encode([encoded_text(passage.title, passage.text) for passage in PASSAGES])
    scores = vectors @ encoder.encode([query], kind=TextKind.QUERY)[0]
    return [replace(passage, score=float(score)) for passage, score in zip(PASSAGES, scores, strict=True)]


@pytest.mark.parametrize("query", QUERIES)
def test_the_words_shares_sum_to_the_score_that_was_reported(query: str, bundled: Encoder) -> None:
    passages = searched(bundled, query)
    for passage, explanation in zip(passages, explain_passages(bundled, query, passages), strict=True):
        assert explanation.exact
        assert explanation.score == passage.score
        assert words_sum(explanation) == pytest.approx(explanation.score, abs=1e-4)
        assert abs(explanation.rounding) < 1e-5
        asked = sum(word.share for word in explanation.query) + explanation.query_rest
        assert asked == pytest.approx(explanation.score, abs=1e-4)


def test_a_narrow_format_is_explained_in_its_own_numbers_and_what_differs_is_named() -> None:
    narrow = Encoder.load(device="cpu", precision=Precision.BFLOAT16)
    passages = searched(narrow, QUERIES[0])
    for explanation in explain_passages(narrow, QUERIES[0], passages):
        assert explanation.exact
        assert words_sum(explanation) + explanation.rounding == pytest.approx(explanation.score, abs=1e-9)
        assert abs(explanation.rounding) < 5e-3  # under 1e-6 where company does not change a vector


def test_spans_are_of_the_title_and_of_the_passages_own_text(bundled: Encoder) -> None:
    explanations = explain_passages(bundled, QUERIES[0], PASSAGES)
    for passage, explanation in zip(PASSAGES, explanations, strict=True):
        for word in explanation.words:
            assert passage.text[word.start : word.end] == word.text
        for word in explanation.title:
            assert passage.title[word.start : word.end] == word.text
        assert "".join(word.text for word in explanation.words) == "".join(passage.text.split())
        assert "".join(word.text for word in explanation.title) == "".join(passage.title.split())
        assert explanation.seen == len(passage.text)
    assert [word.text for word in explanations[3].words] == [
        *("Naïve", "früh", ",", "東", "京", "の", "天", "気", "😀", "don't", "3.50", "—", "ok")
    ]


def test_leaving_out_the_word_of_the_largest_share_lowers_the_score(bundled: Encoder) -> None:
    lowered: list[bool] = []
    for query in QUERIES:
        passages = searched(bundled, query)[:3]
        without: list[ExplainedPassage] = []
        for passage, explanation in zip(passages, explain_passages(bundled, query, passages), strict=True):
            word = max(explanation.words, key=lambda word: word.share)
            text = f"{passage.text[: word.start]} {passage.text[word.end :]}"
            without.append(ExplainedPassage(passage.title, text))
        after = explain_passages(bundled, query, without, sentences=False)
        lowered += [
            less.score < passage.score for passage, less in zip(passages, after, strict=True) if passage.score
        ]
    assert sum(lowered) >= 7  # of 9


def test_the_words_that_answer_have_the_largest_shares(bundled: Encoder) -> None:
    login, _, _, _ = explain_passages(bundled, QUERIES[0], PASSAGES)
    assert max(login.words, key=lambda word: word.share).text == "password"
    assert login.sentence is not None
    assert login.sentence.text == "If you cannot sign in, choose a new password."
    _, _, snails, _ = explain_passages(bundled, QUERIES[1], PASSAGES)
    assert {word.text for word in sorted(snails.words, key=lambda word: -word.share)[:2]} == {
        "Snails",
        "slugs",
    }
    assert max(snails.query, key=lambda word: word.share).text in {"snails", "seedlings"}
    assert snails.matched == ("keep", "snails")  # "off" stands there as well, and says nothing
    assert [match.text for match in snails.matches] == ["Snails", "keeps"]


def test_words_beyond_the_encoders_limit_have_no_share(bundled: Encoder) -> None:
    text = "The bread is fresh. " * 80
    (explanation,) = explain_passages(bundled, QUERIES[2], [ExplainedPassage("Bakery", text)])
    assert 0 < explanation.seen < len(text)
    assert explanation.words[-1].end == explanation.seen
    assert words_sum(explanation) == pytest.approx(explanation.score, abs=1e-9)


def test_an_encoder_that_cannot_say_what_its_tokens_add_is_explained_by_leaving_words_out(
    words: WordsEncoder,
) -> None:
    (explanation,) = explain_passages(words, "oak", [ExplainedPassage("Oak", "tall oak")])
    assert not explanation.exact
    # (0, 0, 2, 1, …): cosine 2/√5; without an "oak" 1/√2, without "tall" 1.
    assert explanation.score == pytest.approx(2 / 5**0.5)
    assert [(word.text, word.start) for word in explanation.title] == [("Oak", 0)]
    assert [(word.text, word.start) for word in explanation.words] == [("tall", 0), ("oak", 5)]
    assert [word.share for word in explanation.words] == pytest.approx(
        [2 / 5**0.5 - 1, 2 / 5**0.5 - 0.5**0.5]
    )
    assert words_sum(explanation) == pytest.approx(explanation.score)
    assert [(word.text, word.share) for word in explanation.query] == [("oak", pytest.approx(2 / 5**0.5))]


class SummingEncoder(WordsEncoder):
    """The words encoder as a sum over its words; a text's first 16 count."""

    exact = True

    def contributions(
        self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE
    ) -> list[TextContributions]:
        found: list[TextContributions] = []
        for spans in self.token_offsets(texts):
            taken = spans[: self.max_tokens]
            letters = np.minimum(taken[:, 1] - taken[:, 0], self.dimension)
            vectors = np.eye(self.dimension)[letters - 1] * 3.0
            found.append(
                TextContributions(
                    vectors, np.zeros(self.dimension), taken, self.exact, len(taken) == len(spans)
                )
            )
        return found


def test_a_sum_over_words_is_explained_by_hand() -> None:
    passage = ExplainedPassage("Oak", "tall oak")
    (explanation,) = explain_passages(SummingEncoder(), "oak", [passage])
    # (0, 0, 2, 1, …): each "oak" has half of the cosine 2/√5, "tall" nothing.
    assert explanation.exact
    assert explanation.score == pytest.approx(2 / 5**0.5)
    assert [word.share for word in explanation.title] == pytest.approx([1 / 5**0.5])
    assert [word.share for word in explanation.words] == pytest.approx([0, 1 / 5**0.5])
    assert [word.share for word in explanation.query] == pytest.approx([2 / 5**0.5])


def test_a_query_that_goes_through_an_adapter_is_explained_by_hand_as_it_was_searched_for() -> None:
    step = np.zeros((8, 8), dtype=np.float32)
    step[2, 3] = 1.0  # from words of three letters towards those of four
    adapter, passage = QueryAdapter(step), ExplainedPassage("Oak", "tall oak")
    (explanation,) = explain_passages(SummingEncoder(), "oak", [passage], adapter=adapter)
    # (0, 0, 1, 1, …)/√2 with (0, 0, 2, 1, …)/√5: a third of 3/√10 for each word.
    assert explanation.exact
    assert explanation.score == pytest.approx(3 / 10**0.5)
    assert [word.share for word in explanation.title] == pytest.approx([1 / 10**0.5])
    assert [word.share for word in explanation.words] == pytest.approx([1 / 10**0.5, 1 / 10**0.5])
    assert [word.share for word in explanation.query] == pytest.approx([3 / 10**0.5])


@pytest.mark.parametrize("encoder", [SummingEncoder(), WordsEncoder()])
def test_shares_sum_to_the_cosine_of_a_query_that_goes_through_an_adapter(encoder: WordsEncoder) -> None:
    adapter = QueryAdapter(np.random.default_rng(3).normal(0, 0.3, (8, 8)).astype(np.float32))
    query, passage = "an oak grows tall", ExplainedPassage("Oak", "a tall oak. Trees")
    asked = adapter(encoder.encode([query], kind=TextKind.QUERY))[0]
    cosine = float(encoder.encode([encoded_text(passage.title, passage.text)])[0] @ asked)
    passage = replace(passage, score=cosine)
    (explanation,) = explain_passages(encoder, query, [passage], adapter=adapter)
    assert abs(explanation.rounding) < 1e-6
    assert words_sum(explanation) == pytest.approx(cosine, abs=1e-6)
    shared = sum(word.share for word in explanation.query) + explanation.query_rest
    assert shared == pytest.approx(cosine, abs=1e-6)
    assert explanation.sentence is not None
    parts = encoder.encode(["a tall oak.", "Trees"]) @ asked
    assert explanation.sentence.score == pytest.approx(parts.max(), abs=1e-6)


def test_a_sum_that_was_shared_out_by_a_rule_is_marked() -> None:
    encoder = SummingEncoder()
    encoder.exact = False
    (explanation,) = explain_passages(encoder, "oak", [ExplainedPassage("", "oak")])
    assert not explanation.exact


def test_an_encoder_whose_vectors_are_no_sum_is_explained_by_leaving_words_out() -> None:
    class Unsummed(WordsEncoder):
        def contributions(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> None:
            return None

    passage = ExplainedPassage("", "tall oak")
    assert explain_passages(Unsummed(), "oak", [passage]) == explain_passages(
        WordsEncoder(), "oak", [passage]
    )


WORDS = st.lists(st.sampled_from(["a", "it", "oak", "tall", "ferns", ",", "."]), min_size=1, max_size=24)


@given(query=WORDS, title=st.lists(st.sampled_from(["An", "Oak"]), max_size=2), text=WORDS)
def test_shares_sum_to_the_cosine_of_the_encoders_own_vectors(
    query: list[str], title: list[str], text: list[str]
) -> None:
    encoder = SummingEncoder()
    passage = ExplainedPassage(" ".join(title), " ".join(text))
    (explanation,) = explain_passages(encoder, " ".join(query), [passage])
    asked = encoder.encode([" ".join(query)], kind=TextKind.QUERY)[0]
    cosine = encoder.encode([encoded_text(passage.title, passage.text)])[0] @ asked
    assert words_sum(explanation) == pytest.approx(cosine, abs=1e-5)
    assert sum(word.share for word in explanation.query) == pytest.approx(cosine, abs=1e-5)
    assert len(explanation.title) + len(explanation.words) == min(len(title) + len(text), 16)


def test_a_reported_score_of_another_pass_is_kept_and_the_difference_named(words: WordsEncoder) -> None:
    (explanation,) = explain_passages(words, "oak", [ExplainedPassage("", "oak", score=0.998)])
    assert explanation.score == 0.998
    assert explanation.rounding == pytest.approx(-0.002)


def test_sentences_are_looked_for_only_if_wanted(words: WordsEncoder) -> None:
    passage = ExplainedPassage("", "An elm. The oak.")
    (looked,) = explain_passages(words, "oak", [passage])
    (passed,) = explain_passages(words, "oak", [passage], sentences=False)
    assert looked.sentence is not None
    assert passed.sentence is None


def test_no_passages_have_no_explanations(words: WordsEncoder) -> None:
    assert explain_passages(words, "oak", []) == []


def test_an_explanation_is_a_json_object(words: WordsEncoder) -> None:
    (explanation,) = explain_passages(words, "oak", [ExplainedPassage("", "oak")])
    written = json.loads(json.dumps(explanation.to_json()))
    assert written["words"] == [{"text": "oak", "start": 0, "end": 3, "share": pytest.approx(1)}]
    assert written["sentence"] is None
