import numpy as np
import pytest

from nearsay.training.sentence.compression.static_encoder import (
    fitted_table,
    observed_probabilities,
    sif_weights,
    token_shares,
    zipf_probabilities,
)


def test_probabilities_fall_with_the_place_in_the_vocabulary() -> None:
    # 1/2, 1/3 and 1/6 of… 1/2 + 1/3 + 1/4 = 13/12
    np.testing.assert_allclose(zipf_probabilities(3), [6 / 13, 4 / 13, 3 / 13])


def test_each_token_counts_once_more_than_it_is_there() -> None:
    np.testing.assert_allclose(observed_probabilities([[1, 1, 2], [], [1]], 4), [1 / 8, 4 / 8, 2 / 8, 1 / 8])


def test_a_token_as_frequent_as_the_coefficient_weighs_half() -> None:
    np.testing.assert_allclose(sif_weights(np.array([0, 1e-4, 0.0099])), [1, 0.5, 0.01])


def test_shares_turn_a_table_into_means() -> None:
    table = np.array([[1.0, 0.0], [0.0, 4.0], [2.0, 2.0]])
    shares = token_shares([[0, 1], [], [2, 2, 0]], 3)
    np.testing.assert_allclose(shares @ table, [[0.5, 2], [0, 0], [5 / 3, 4 / 3]])


def test_a_table_of_one_token_moves_to_its_text_as_far_as_the_ridge_lets_it() -> None:
    # Scaled to fit: 1 becomes 3. Two dimensions cannot be had by scaling (3, 0): with ridge 1 half way to 4.
    table = fitted_table(np.array([[1.0, 0.0]]), token_shares([[0]], 1), np.array([[3.0, 4.0]]), ridge=1)
    np.testing.assert_allclose(table, [[3, 2]])


def test_enough_rounds_reach_the_exact_minimum() -> None:
    chance = np.random.default_rng(0)
    token_ids = [chance.integers(0, 12, size=chance.integers(1, 6)).tolist() for _ in range(40)]
    shares, start, targets = (
        token_shares(token_ids, 12),
        chance.normal(size=(12, 3)),
        chance.normal(size=(40, 3)),
    )
    table = fitted_table(start, shares, targets, ridge=0.01, rounds=60)
    dense = shares.toarray()
    scaled = start * ((dense @ start) * targets).sum() / ((dense @ start) ** 2).sum()
    change = np.linalg.solve(dense.T @ dense + 0.01 * np.eye(12), dense.T @ (targets - dense @ scaled))
    np.testing.assert_allclose(table, scaled + change, atol=1e-8)


def test_every_round_comes_nearer() -> None:
    chance = np.random.default_rng(1)
    token_ids = [chance.integers(0, 30, size=5).tolist() for _ in range(50)]
    shares, start, targets = (
        token_shares(token_ids, 30),
        chance.normal(size=(30, 2)),
        chance.normal(size=(50, 2)),
    )
    errors = [
        float(((shares @ fitted_table(start, shares, targets, rounds=rounds) - targets) ** 2).sum())
        for rounds in (0, 2, 8, 30)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.7 * errors[0]


@pytest.mark.parametrize("rounds", [1, 5])
def test_what_fits_already_stays(rounds: int) -> None:
    table = np.array([[1.0, 2.0], [3.0, -1.0]])
    shares = token_shares([[0], [1], [0, 1]], 2)
    np.testing.assert_allclose(fitted_table(table, shares, shares @ table, rounds=rounds), table)
