import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import accuracy_score, f1_score

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.pairs import best_accuracy, best_f1

ITEMS = st.lists(st.tuples(st.booleans(), st.integers(-8, 8)), min_size=1, max_size=30).filter(
    lambda items: any(positive for positive, _ in items)
)


def test_they_are_worked_by_hand() -> None:
    positive, scores = [1, 0, 1, 0, 0], [0.9, 0.8, 0.6, 0.4, 0.2]
    f1, accuracy = best_f1(positive, scores), best_accuracy(positive, scores)
    # Down to .6: 2 of 3 are positive, and both positives are among them: 2 · 2 / (2 + 3).
    assert (f1.figure, f1.threshold) == (pytest.approx(0.8), pytest.approx(0.5))
    # Cutting below .9 gets 4 of 5 right, as cutting below .6 does; the higher threshold is taken.
    assert (accuracy.figure, accuracy.threshold) == (pytest.approx(0.8), pytest.approx(0.85))


def test_calling_nothing_positive_may_be_the_most_accurate() -> None:
    found = best_accuracy([0, 0, 1], [3.0, 2.0, 1.0])
    assert found.figure == pytest.approx(2 / 3)
    assert found.threshold > 3


@pytest.mark.long
@given(ITEMS)
def test_no_threshold_does_better_and_this_one_does_as_well(items: list[tuple[bool, int]]) -> None:
    positive, scores = (np.array(side) for side in zip(*items, strict=True))
    tried = [*np.unique(scores), scores.max() + 1]
    for best, figure in ((best_f1, f1_score), (best_accuracy, accuracy_score)):
        found = best(positive, scores)
        reached = [
            figure(positive, scores >= threshold, **({"zero_division": 0.0} if figure is f1_score else {}))
            for threshold in tried
        ]
        assert found.figure == pytest.approx(max(reached))
        assert figure(positive, scores >= found.threshold) == pytest.approx(found.figure)


@given(ITEMS)
def test_they_agree_with_sentence_transformers(items: list[tuple[bool, int]]) -> None:
    positive, scores = (np.array(side, dtype=float) for side in zip(*items, strict=True))
    accuracy, threshold = BinaryClassificationEvaluator.find_best_acc_and_threshold(scores, positive, True)
    ours = best_accuracy(positive, scores)
    assert (ours.figure, ours.threshold) == (pytest.approx(accuracy), pytest.approx(threshold))
    # Theirs adds up fractions, so that of equally good thresholds rounding decides which they take.
    f1, _, _, _ = BinaryClassificationEvaluator.find_best_f1_and_threshold(scores, positive, True)
    assert best_f1(positive, scores).figure == pytest.approx(f1)


def test_a_threshold_between_neighbouring_numbers_parts_them() -> None:
    low = 1.0
    high = float(np.nextafter(low, 2))
    assert low < best_f1([1, 0], [high, low]).threshold <= high


def test_without_a_positive_there_is_no_threshold() -> None:
    with pytest.raises(BadInputError, match="0 positive of 2"):
        best_f1([0, 0], [1, 2])
