import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.sentence.compression.comparison import compare_compressions

# Unit vectors of 8 dimensions whose signs say less than their numbers.
TABLE = {
    "owl": [0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
    "barn owl": [0.8, 0.4, 0.1, 0.1, 0.1, 0.1, -0.1, 0.1],
    "tawny owl": [0.7, 0.1, -0.1, 0.5, 0.1, -0.1, 0.1, 0.1],
    "kettle": [0.1, 0.2, 0.3, 0.9, 0.2, 0.3, 0.1, 0.1],
    "teapot": [-0.2, 0.3, 0.1, 0.8, -0.1, 0.3, 0.2, -0.1],
}
PAIRS = [
    ScoredPair("owl", "barn owl", 5),
    ScoredPair("kettle", "teapot", 4),
    ScoredPair("owl", "kettle", 1),
    ScoredPair("barn owl", "teapot", 0),
]
JUDGED = RetrievalSet(
    "birds",
    corpus={"b": "barn owl", "k": "kettle", "t": "tawny owl"},
    queries={"q": "owl"},
    judgements={"q": {"b": 1, "t": 1}},
)
NAMES = [
    "float32",
    "float16",
    "int8",
    "binary",
    "binary, rescored by itself",
    "binary, rescored by int8",
    "binary, rescored by float32",
]


def test_every_variant_is_measured_with_its_bytes(table_encoder: type) -> None:
    rows = compare_compressions(table_encoder(TABLE), pairs=PAIRS, retrieval=JUDGED, dimensions=[2])
    assert [row.variant for row in rows] == [*NAMES, "first 2 of 8"]
    assert [row.bytes_per_vector for row in rows] == [32, 16, 8, 1, 1, 9, 33, 8]
    assert [row.dimension for row in rows] == [8] * 7 + [2]


def test_a_judged_document_with_the_querys_id_is_an_answer(table_encoder: type) -> None:
    same = RetrievalSet("same", {"q": "barn owl", "k": "kettle"}, {"q": "owl"}, {"q": {"q": 1}})
    (whole, *_) = compare_compressions(table_encoder(TABLE), retrieval=same)
    assert whole.ndcg_at_10 == 1.0


def test_figures_worked_out_by_hand(table_encoder: type) -> None:
    rows = {
        row.variant: row
        for row in compare_compressions(table_encoder(TABLE), pairs=PAIRS, retrieval=JUDGED, dimensions=[2])
    }
    assert rows["float32"].spearman == pytest.approx(100)
    assert rows["float32"].ndcg_at_10 == pytest.approx(1)
    # By signs alone the query owl is the kettle, 0 bits off; the owls are 1 and 2 off: ranks 2 and 3.
    dcg = 1 / np.log2(3) + 1 / np.log2(4)
    ideal = 1 + 1 / np.log2(3)
    assert rows["binary"].ndcg_at_10 == pytest.approx(dcg / ideal)
    assert rows["binary"].ndcg_lost == pytest.approx(1 - dcg / ideal)
    assert rows["binary, rescored by float32"].ndcg_at_10 == pytest.approx(1)
    # The pairs are 1, 3, 0 and 4 bits off, so of the ranks 3, 2, 4, 1; by score 4, 3, 2, 1: 1 - 6 * 6 / 60.
    assert rows["binary"].spearman == pytest.approx(40)
    assert rows["binary"].spearman_lost == pytest.approx(60)
    assert rows["binary, rescored by int8"].spearman is None


def test_a_document_that_is_the_query_is_no_answer(table_encoder: type) -> None:
    judged = RetrievalSet("birds", {"q": "owl", "b": "barn owl"}, {"q": "owl"}, {"q": {"b": 1}})
    for row in compare_compressions(table_encoder(TABLE), retrieval=judged):
        assert row.ndcg_at_10 == pytest.approx(1)
        assert row.spearman is None


def test_progress_is_told_over_all_texts(table_encoder: type) -> None:
    told: list[tuple[int, int]] = []
    compare_compressions(
        table_encoder(TABLE),
        pairs=PAIRS,
        retrieval=JUDGED,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(8, 12), (9, 12), (12, 12)]


def test_nothing_to_measure_on_and_wrong_dimensions_are_refused(table_encoder: type) -> None:
    with pytest.raises(BadInputError, match="nothing to measure on"):
        compare_compressions(table_encoder(TABLE))
    with pytest.raises(BadInputError, match="cannot be cut to 8"):
        compare_compressions(table_encoder(TABLE), pairs=PAIRS, dimensions=[4, 8])
