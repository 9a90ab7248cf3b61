"""Queries are moved to where their answers were, and no passage is embedded again."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.query_adapter import QueryAdapter, adapted_leaving_one_out, fit_query_adapter


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def drawn(count: int = 20, size: int = 6) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(7)
    return unit(random.normal(size=(count, size))), unit(random.normal(size=(count, size)))


def test_one_query_worked_by_hand() -> None:
    query, target = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    adapter = fit_query_adapter(query, target, 1.0)
    # Dual: (1 + 1)⁻¹ · (target - query) = (-.5, .5), so that the query moves half of the way.
    assert adapter.step.tolist() == [[-0.5, 0.5], [0.0, 0.0]]
    assert adapter(query)[0].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    other = np.array([[0.0, 1.0]], np.float32)
    assert adapter(other).tolist() == other.tolist()  # nothing was learned of it


@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_the_step_is_that_of_ridge_regression(strength: float) -> None:
    queries, targets = drawn()
    oracle = Ridge(alpha=strength, fit_intercept=False).fit(queries, targets - queries)
    np.testing.assert_allclose(fit_query_adapter(queries, targets, strength).step, oracle.coef_.T, atol=1e-5)


def test_leaving_one_out_is_fitting_to_the_others() -> None:
    queries, targets = drawn()
    quick = adapted_leaving_one_out(queries, targets, 2.0)
    for out in range(len(queries)):
        others = np.arange(len(queries)) != out
        slow = fit_query_adapter(queries[others], targets[others], 2.0)(queries[out : out + 1])
        np.testing.assert_allclose(quick[out], slow[0], atol=1e-5)


def test_the_stronger_the_penalty_the_less_a_query_moves_and_it_keeps_length_one() -> None:
    queries, targets = drawn()
    moved = [fit_query_adapter(queries, targets, strength)(queries) for strength in (0.1, 1.0, 10.0, 1e6)]
    cosines = [float((each * queries).sum(axis=1).mean()) for each in moved]
    assert cosines == sorted(cosines)
    assert cosines[-1] == pytest.approx(1.0, abs=1e-5)
    for each in moved:
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), 1.0, atol=1e-5)


def test_fitting_moves_queries_towards_their_answers_not_away() -> None:
    queries, targets = drawn()
    moved = fit_query_adapter(queries, targets, 1.0)(queries)
    assert (moved * targets).sum(axis=1).mean() > (queries * targets).sum(axis=1).mean() + 0.1


def test_an_adapter_is_kept_as_bytes() -> None:
    adapter = fit_query_adapter(*drawn(), 1.0)
    assert np.array_equal(QueryAdapter.from_bytes(adapter.to_bytes()).step, adapter.step)
    for damaged in (b"", b"1234567", b"\0" * 8, np.full(4, np.nan, "<f4").tobytes()):
        with pytest.raises(BadInputError, match="not a query adapter"):
            QueryAdapter.from_bytes(damaged)


def test_what_does_not_belong_together_is_refused() -> None:
    queries, targets = drawn()
    for wrong in ((queries[1:], targets, 1.0), (queries, targets, 0.0), (queries[:0], targets[:0], 1.0)):
        with pytest.raises(BadInputError, match="as many"):
            fit_query_adapter(*wrong)


def test_a_query_in_parts_has_the_adapted_cosine_in_parts() -> None:
    rng = np.random.default_rng(5)
    adapter = QueryAdapter(rng.normal(0, 0.3, (6, 6)).astype(np.float32))
    query, passage = (one / np.linalg.norm(one) for one in rng.normal(size=(2, 6)))
    cosine = float(adapter(query[None, :].astype(np.float32))[0] @ passage)
    assert adapter.moved(query) @ passage == pytest.approx(cosine, abs=1e-6)
    assert query @ adapter.seen_by(query, passage) == pytest.approx(cosine, abs=1e-6)
