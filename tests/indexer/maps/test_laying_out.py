"""A whole map of vectors."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.manifold import trustworthiness

from nearsay.data.errors import BadInputError
from nearsay.indexer.maps.mapping import MapOptions, MapPoints, extended, laid_out
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.vector_store import unit_length

OPTIONS = MapOptions(seed=1, rounds=60)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Six bunches of 40 in 16 dimensions."""
    generator = np.random.default_rng(0)
    middles = generator.standard_normal((6, 16))
    return unit_length(
        (np.repeat(middles, 40, axis=0) + 0.5 * generator.standard_normal((240, 16))).astype(np.float32)
    )


@pytest.fixture(scope="module")
def whole(vectors: np.ndarray) -> MapPoints:
    return laid_out(points(vectors), OPTIONS).points


def points(vectors: np.ndarray) -> Points:
    return Points.from_array(np.arange(len(vectors)) + 100, vectors)


def test_bunches_lie_together(vectors: np.ndarray, whole: MapPoints) -> None:
    assert whole.ids.tolist() == list(range(100, 340))
    assert whole.laid_out.all()
    assert trustworthiness(vectors, whole.places, n_neighbors=10, metric="cosine") > 0.9
    middles = whole.places.reshape(6, 40, 2).mean(axis=1)
    nearest = np.linalg.norm(whole.places[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == np.repeat(np.arange(6), 40)).mean() > 0.95


def test_the_order_of_the_passages_changes_nothing(vectors: np.ndarray, whole: MapPoints) -> None:
    mixed = np.random.default_rng(4).permutation(240)
    other = laid_out(points(vectors[mixed]), OPTIONS).points
    assert np.array_equal(other.places, whole.places[mixed])


def test_copies_lie_together_and_move_nobody(vectors: np.ndarray, whole: MapPoints) -> None:
    twice = laid_out(points(np.concatenate([vectors, vectors[:30]])), OPTIONS)
    assert twice.distinct == 240
    assert np.array_equal(twice.points.places[:240], whole.places)
    assert np.array_equal(twice.points.places[240:], whole.places[:30])
    assert not twice.points.laid_out[240:].any()


def test_of_too_many_a_sample_is_laid_out_and_the_rest_projected(vectors: np.ndarray) -> None:
    options = replace(OPTIONS, most_laid_out=150)
    found = laid_out(points(vectors), options)
    assert (found.distinct, int(found.points.laid_out.sum())) == (150, 150)
    assert trustworthiness(vectors, found.points.places, n_neighbors=10, metric="cosine") > 0.85
    mixed = np.random.default_rng(4).permutation(240)
    assert np.array_equal(laid_out(points(vectors[mixed]), options).points.places, found.points.places[mixed])


def test_new_passages_come_among_the_old_and_nobody_moves(vectors: np.ndarray) -> None:
    known = np.arange(240) % 4 != 0
    old = laid_out(Points.from_array(np.flatnonzero(known) + 100, vectors[known]), OPTIONS).points
    grown = extended(points(vectors), old, OPTIONS)
    assert np.array_equal(grown.places[known], old.places)
    assert grown.laid_out.tolist() == known.tolist()
    assert trustworthiness(vectors, grown.places, n_neighbors=10, metric="cosine") > 0.85


def test_new_passages_come_to_lie_where_they_do_in_any_order_and_with_their_copies(
    vectors: np.ndarray,
) -> None:
    old = laid_out(points(vectors[:160]), OPTIONS).points
    grown = extended(points(np.concatenate([vectors, vectors[200:210]])), old, OPTIONS)
    assert np.array_equal(grown.places[240:], grown.places[200:210])
    mixed = np.concatenate([np.arange(160), 160 + np.random.default_rng(4).permutation(80)])
    assert np.array_equal(extended(points(vectors[mixed]), old, OPTIONS).places, grown.places[mixed])


def test_what_is_put_among_those_laid_out_is_never_all_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit_length(np.random.default_rng(3).standard_normal((3000, 8)).astype(np.float32))
    sizes = []
    rows = Points.rows

    def measured(self: Points, places: np.ndarray) -> np.ndarray:
        sizes.append(places.size)
        return rows(self, places)

    monkeypatch.setattr(Points, "rows", measured)
    few = replace(OPTIONS, rounds=2, most_laid_out=150)
    old = laid_out(points(vectors[:1500]), few).points
    extended(points(vectors), old, few)
    assert 150 <= max(sizes) <= 1024


def test_other_vectors_of_the_same_passages_keep_the_picture(vectors: np.ndarray, whole: MapPoints) -> None:
    noise = 0.1 * np.random.default_rng(9).standard_normal(vectors.shape)
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((16, 16)))[0]  # another encoder's axes
    other = unit_length(((vectors + noise) @ turn).astype(np.float32))
    begun = laid_out(points(other), OPTIONS, whole)
    assert begun.shift is not None
    assert begun.shift < 0.25
    alone = laid_out(points(other), OPTIONS)
    assert alone.shift is None
    middles, fresh = (
        each.reshape(6, 40, 2).mean(axis=1) for each in (begun.points.places, alone.points.places)
    )
    before = whole.places.reshape(6, 40, 2).mean(axis=1)
    assert np.linalg.norm(middles - before, axis=1).max() < np.linalg.norm(fresh - before, axis=1).max()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_handful_has_a_map_too(vectors: np.ndarray, count: int) -> None:
    places = laid_out(points(vectors[:count]), OPTIONS).points.places
    assert np.isfinite(places).all()
    assert len(np.unique(places, axis=0)) == count


def test_a_seed_below_nought_is_refused() -> None:
    with pytest.raises(BadInputError, match="seed is -1"):
        MapOptions(seed=-1)
