"""Linear layers on vectors that are not trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.bert.heads.linear_head import LinearHead, chosen_head, fit_linear_head, held_out_tenth


def rows(labels: int, count: int = 90) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    chance = np.random.default_rng(0)
    targets = np.arange(count) % labels
    centres = chance.normal(size=(labels, 4)) * [1, 10, 0.1, 1]
    return (centres[targets] + chance.normal(size=(count, 4)) * 0.7 + 5).astype(np.float32), targets


def test_a_head_is_weights_times_vector_plus_bias() -> None:
    head = LinearHead(np.array([[1, 0], [0, 2], [1, 1]], np.float32), np.array([0, 1, -1], np.float32))
    assert head.logits(np.array([[3, 4]], np.float32)).tolist() == [[3, 9, 6]]
    assert head.width == 2


@pytest.mark.parametrize("labels", [2, 3])
def test_it_is_logistic_regression_on_scaled_vectors(labels: int) -> None:
    vectors, targets = rows(labels)
    head = fit_linear_head(vectors, targets, labels=labels, regularisation=0.5)
    logits = head.logits(vectors).astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    scaled = StandardScaler().fit_transform(vectors.astype(np.float64))
    oracle = LogisticRegression(C=0.5, max_iter=1000).fit(scaled, targets)
    assert shares == pytest.approx(oracle.predict_proba(scaled), abs=1e-3)


def test_a_label_without_rows_is_never_said() -> None:
    vectors, targets = rows(2)
    head = fit_linear_head(vectors, np.where(targets == 1, 2, 0), labels=4, regularisation=1.0)
    assert set(head.logits(1000 * vectors).argmax(axis=1)) <= {0, 2}


def test_a_constant_dimension_does_no_harm() -> None:
    vectors, targets = rows(2)
    vectors[:, 2] = 7.0
    head = fit_linear_head(vectors, targets, labels=2, regularisation=1.0)
    assert np.isfinite(head.weights).all()
    assert (head.logits(vectors).argmax(axis=1) == targets).mean() > 0.9


def test_rows_of_one_label_are_refused() -> None:
    vectors, targets = rows(2)
    with pytest.raises(BadInputError, match="all rows have one label"):
        fit_linear_head(vectors, targets * 0, labels=2, regularisation=1.0)


def test_a_fit_that_does_not_come_to_rest_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nearsay.training.bert.heads.linear_head._ITERATIONS", 1)
    vectors, targets = rows(3)
    fit_linear_head(vectors, targets, labels=3, regularisation=10.0)
    assert caplog.text == Naming("1 iterations", "C = 10")


def test_a_head_is_read_as_it_was_written(tmp_path: Path) -> None:
    vectors, targets = rows(3)
    head = fit_linear_head(vectors, targets, labels=3, regularisation=1.0)
    head.save(tmp_path)
    loaded = LinearHead.load(tmp_path)
    assert np.array_equal(loaded.weights, head.weights)
    assert np.array_equal(loaded.bias, head.bias)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"no head")])
def test_a_head_that_is_missing_or_damaged_is_named(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    LinearHead(np.zeros((2, 2), np.float32), np.zeros(2, np.float32)).save(tmp_path)
    damage(tmp_path / "head" / "linear.safetensors")
    with pytest.raises(NearsayError, match=r"linear\.safetensors cannot be read"):
        LinearHead.load(tmp_path)


def test_the_regularisation_with_the_best_figure_is_kept_and_of_equals_the_strongest() -> None:
    vectors, targets = rows(2)
    seen: list[float] = []

    def figure(head: LinearHead) -> float:
        seen.append(float(np.abs(head.weights).sum()))
        return [0.5, 0.7, 0.7, 0.6][len(seen) - 1]

    found = chosen_head(
        vectors, targets, figure, labels=2, held_out=None, regularisations=[10.0, 0.001, 1.0, 0.1]
    )
    assert seen == sorted(seen)  # the one that is held back most comes first
    assert found.regularisation == 0.1
    assert found.tried == ((0.001, 0.5), (0.1, 0.7), (1.0, 0.7), (10.0, 0.6))
    assert np.abs(found.head.weights).sum() == pytest.approx(seen[1])
    assert found.lines("accuracy")[1] == {"step": 2, "regularisation": 0.1, "evaluation": {"accuracy": 0.7}}


def test_rows_held_out_are_fitted_in_the_end() -> None:
    vectors, targets = rows(2)
    held_out = held_out_tenth(targets)
    assert held_out is not None
    fitted: list[LinearHead] = []
    found = chosen_head(
        vectors,
        targets,
        lambda head: fitted.append(head) or 0.0,  # type: ignore[func-returns-value]  # append gives None
        labels=2,
        held_out=held_out,
        regularisations=[1.0],
    )
    part = fit_linear_head(vectors[~held_out], targets[~held_out], labels=2, regularisation=1.0)
    whole = fit_linear_head(vectors, targets, labels=2, regularisation=1.0)
    assert fitted[0].weights == pytest.approx(part.weights)
    assert found.head.weights == pytest.approx(whole.weights)
    assert found.head.weights != pytest.approx(part.weights)


def test_a_tenth_of_each_label_is_held_out_whatever_the_rows_order() -> None:
    taking_turns = np.arange(200) % 10
    sorted_by_label = np.sort(taking_turns)
    for targets in (taking_turns, sorted_by_label, 1 - np.arange(200) % 2):
        held_out = held_out_tenth(targets)
        assert held_out is not None
        assert np.array_equal(held_out, held_out_tenth(targets))
        shares = [held_out[targets == label].mean() for label in np.unique(targets)]
        assert shares == pytest.approx([0.1] * len(shares))


@pytest.mark.parametrize(
    ("targets", "of"), [([0, 0, 1], 0), ([1, 0, 1, 1], 1), ([0] * 9 + [1], 0), ([*range(9), 3], 3)]
)
def test_of_few_rows_one_is_held_out_and_never_a_labels_only_one(targets: list[int], of: int) -> None:
    held_out = held_out_tenth(np.array(targets))
    assert held_out is not None
    assert [target for target, held in zip(targets, held_out, strict=True) if held] == [of]


def test_none_is_held_out_where_every_label_has_one_row() -> None:
    assert held_out_tenth(np.arange(12)) is None
    assert held_out_tenth(np.arange(0)) is None
