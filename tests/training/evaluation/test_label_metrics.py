"""Accuracy, F1, Matthews' correlation and confusions of labels."""

import numpy as np
import pytest
from sklearn import metrics

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.label_metrics import (
    Confusion,
    accuracy,
    confusions,
    f1_score_of,
    macro_f1,
    matthews_correlation,
)

#        right  wrong  right  wrong  right  right
GOLD = ["a", "a", "b", "b", "c", "b"]
SAID = ["a", "b", "b", "a", "c", "b"]


def test_accuracy_is_the_share_that_is_right() -> None:
    assert accuracy(GOLD, SAID) == pytest.approx(4 / 6)
    assert accuracy(GOLD, GOLD) == 1.0


def test_macro_f1_is_the_mean_over_labels() -> None:
    # a: 1 right, 2 said, 2 there: 2/4. b: 2 right, 3 said, 3 there: 4/6. c: 1.
    assert macro_f1(GOLD, SAID) == pytest.approx((1 / 2 + 2 / 3 + 1) / 3)


def test_binary_f1_is_that_of_one_label() -> None:
    assert f1_score_of(GOLD, SAID, "b") == pytest.approx(2 / 3)
    assert f1_score_of(["a", "b"], ["b", "a"], "a") == 0.0
    assert f1_score_of(["a", "b"], ["b", "b"], "a") == 0.0  # never said: nothing to divide by


def test_matthews_correlation_of_two_labels_is_worked_by_hand() -> None:
    # TP 2, TN 1, FP 1, FN 1: (2·1 - 1·1) / √(3·3·2·2)
    gold, said = ["y", "y", "y", "n", "n"], ["y", "y", "n", "n", "y"]
    assert matthews_correlation(gold, said) == pytest.approx(1 / 6)
    assert matthews_correlation(gold, gold) == pytest.approx(1.0)
    assert matthews_correlation(["y", "n"], ["n", "y"]) == pytest.approx(-1.0)


@pytest.mark.parametrize("said", [["y", "y"], ["n", "n"]])
def test_matthews_correlation_is_nought_where_it_is_not_defined(said: list[str]) -> None:
    assert matthews_correlation(["y", "y"], said) == 0.0
    assert matthews_correlation(["y", "n"], said) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_scikit_learn(seed: int) -> None:
    gold, said = ([*map(str, row)] for row in np.random.default_rng(seed).choice(list("abcd"), (2, 50)))
    assert accuracy(gold, said) == pytest.approx(metrics.accuracy_score(gold, said))
    assert matthews_correlation(gold, said) == pytest.approx(metrics.matthews_corrcoef(gold, said))
    matrix = metrics.confusion_matrix(gold, said, labels=list("abcd"))
    for found in confusions(gold, said, largest=20):
        assert matrix["abcd".index(found.label), "abcd".index(found.predicted)] == found.count
        assert found.of == gold.count(found.label)


def test_confusions_come_most_frequent_first() -> None:
    gold = ["a", "a", "a", "b", "c", "c"]
    said = ["b", "b", "a", "c", "b", "c"]
    assert confusions(gold, said) == [
        Confusion("a", "b", 2, 3),
        Confusion("b", "c", 1, 1),
        Confusion("c", "b", 1, 2),
    ]
    assert confusions(gold, said, largest=1) == [Confusion("a", "b", 2, 3)]
    assert confusions(gold, gold) == []


@pytest.mark.parametrize("metric", [accuracy, matthews_correlation, confusions])
def test_lists_that_do_not_belong_together_are_refused(metric: object) -> None:
    for gold, said in (([], []), (["a"], ["a", "b"])):
        with pytest.raises(BadInputError, match="judged items"):
            metric(gold, said)  # type: ignore[operator]


def test_a_label_that_is_nowhere_has_no_f1() -> None:
    with pytest.raises(BadInputError, match=r"'z' .*judged"):
        f1_score_of(GOLD, SAID, "z")
