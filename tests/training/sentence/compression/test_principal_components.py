import numpy as np
import pytest
from sklearn.decomposition import PCA

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.compression.reduction import principal_components


def test_points_on_a_line_lose_nothing_in_one_dimension() -> None:
    # (0, 0), (3, 4), (6, 8): mean (3, 4), direction (0.6, 0.8), places 0, 5, 10
    points = np.array([[0, 0], [3, 4], [6, 8]], dtype=np.float32)
    fitted = principal_components([points], 1)
    np.testing.assert_allclose(fitted.mean, [3, 4])
    np.testing.assert_allclose(fitted.components, [[0.6, 0.8]])
    assert fitted.variance_kept == pytest.approx(1)
    np.testing.assert_allclose(fitted.project(points), [[0], [5], [10]], atol=1e-6)


def test_the_share_of_variance_is_that_of_the_kept_directions() -> None:
    # Along x the variance is 4, along y it is 1.
    points = np.array([[2, 1], [2, -1], [-2, 1], [-2, -1]], dtype=np.float32)
    assert principal_components([points], 1).variance_kept == pytest.approx(0.8)


def test_windows_far_from_zero_give_what_scikit_learn_gives_for_the_whole() -> None:
    chance = np.random.default_rng(0)
    vectors = (chance.normal(size=(300, 12)) * np.arange(1, 13) + 1000).astype(np.float32)
    peer = PCA(4, svd_solver="full").fit(vectors.astype(np.float64))
    fitted = principal_components(np.split(vectors, [7, 7, 150]), 4)
    cosines = np.abs(np.einsum("dw,dw->d", fitted.components, peer.components_))
    np.testing.assert_allclose(cosines, 1, atol=1e-9)
    np.testing.assert_allclose(fitted.mean, peer.mean_)
    assert fitted.variance_kept == pytest.approx(peer.explained_variance_ratio_.sum())
    assert fitted.vectors == 300


def test_too_few_vectors_and_dimensions_that_are_not_fewer_are_refused() -> None:
    vectors = np.eye(4, dtype=np.float32)
    with pytest.raises(BadInputError, match=r"^4 texts .*\b4 dim"):
        principal_components([vectors], 4)
    with pytest.raises(BadInputError, match="0 texts"):
        principal_components([], 1)
    with pytest.raises(BadInputError, match=r"to 2\. .*\b1 to 1"):
        principal_components([vectors[:, :2]], 2)
