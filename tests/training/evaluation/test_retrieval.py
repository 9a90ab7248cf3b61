from math import log2

import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.sentence.text_encoder import TextKind

TABLE = {
    "east": (1, 0),
    "far east": (9, 0),
    "north": (0, 1),
    "north-east": (1, 1),
    "west": (-1, 0),
    "which way is east?": (1, 0),
    "which way is north?": (0, 2),
}
CORPUS = {"d3": "east", "d1": "far east", "d2": "north-east", "d4": "north", "d5": "west"}
QUERIES = {"q1": "which way is east?", "q2": "which way is north?", "unjudged": "west"}


def test_figures_worked_by_hand(table_encoder: type) -> None:
    # Rankings by cosine: q1 gives d1 = d3 (by id), d2, d4, d5; q2 gives d4, d2, d1 = d3 = d5.
    judged = RetrievalSet("ways", CORPUS, QUERIES, {"q1": {"d3": 1}, "q2": {"d4": 2, "d5": 1}})
    encoder = table_encoder(TABLE, truncated=["west", "which way is east?"])
    report = RetrievalJudgedSet("judged", judged).measure(encoder)
    q2 = (2 + 1 / log2(6)) / (2 + 1 / log2(3))
    assert (report.name, report.items, report.truncated) == ("judged", 2, 2)
    assert (report.details["queries"], report.details["documents"]) == (2, 5)
    assert report.metrics["ndcg_at_10"] == pytest.approx((1 / log2(3) + q2) / 2)
    assert report.metrics["mrr_at_10"] == pytest.approx((1 / 2 + 1) / 2)
    assert report.metrics["recall_at_100"] == 1
    assert (report.details["truncated_documents"], report.details["truncated_queries"]) == (1, 1)
    assert min(report.details["encoding_seconds"], report.details["search_seconds"]) > 0
    assert encoder.kinds == [TextKind.QUERY, TextKind.PASSAGE]


def test_long_vectors_do_not_come_first(table_encoder: type) -> None:
    judged = RetrievalSet(
        "ways", {"a": "far east", "b": "north"}, {"q": "which way is north?"}, {"q": {"b": 1}}
    )
    assert RetrievalJudgedSet("judged", judged).measure(table_encoder(TABLE)).metrics["mrr_at_10"] == 1


def test_a_document_with_the_querys_id_is_left_out(table_encoder: type) -> None:
    judged = RetrievalSet(
        "ways", {"q": "east", "r": "north-east"}, {"q": "which way is east?"}, {"q": {"r": 1}}
    )
    assert RetrievalJudgedSet("judged", judged).measure(table_encoder(TABLE)).metrics["ndcg_at_10"] == 1


def test_a_relevant_document_that_is_not_in_the_corpus_counts_against_it(table_encoder: type) -> None:
    judged = RetrievalSet("ways", CORPUS, QUERIES, {"q1": {"d1": 1, "gone": 1}})
    assert RetrievalJudgedSet("judged", judged).measure(table_encoder(TABLE)).metrics["recall_at_100"] == 0.5


def test_progress_ends_at_all_texts(table_encoder: type) -> None:
    calls: list[tuple[int, int]] = []
    judged = RetrievalSet("ways", CORPUS, QUERIES, {"q1": {"d3": 1}})
    RetrievalJudgedSet("judged", judged).measure(
        table_encoder(TABLE), progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(1, 6), (6, 6)]


@pytest.mark.parametrize(
    ("corpus", "judgements"), [({}, {"q1": {"d1": 1}}), (CORPUS, {}), (CORPUS, {"not a query": {"d1": 1}})]
)
def test_nothing_to_measure_is_an_error(
    corpus: dict[str, str], judgements: dict[str, dict[str, int]], table_encoder: type
) -> None:
    with pytest.raises(BadInputError, match="retrieval set 'ways'"):
        RetrievalJudgedSet("judged", RetrievalSet("ways", corpus, QUERIES, judgements)).measure(
            table_encoder(TABLE)
        )


def test_a_document_with_the_querys_id_counts_when_it_is_judged(table_encoder: type) -> None:
    encoder = table_encoder({"title": [1, 0], "abstract": [1, 0.1], "other": [0, 1]})
    documents, queries = {"7": "abstract", "8": "other"}, {"7": "title"}
    judged = RetrievalSet("papers", documents, queries, {"7": {"7": 1}})
    assert RetrievalJudgedSet("judged", judged).measure(encoder).metrics["ndcg_at_10"] == 1.0
    other = RetrievalSet("papers", documents, queries, {"7": {"8": 1}})  # then it is the query itself
    assert RetrievalJudgedSet("judged", other).measure(encoder).metrics["mrr_at_10"] == 1.0
