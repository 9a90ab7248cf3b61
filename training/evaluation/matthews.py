"""Matthews' correlation coefficient."""

from collections.abc import Sequence

from nearsay.training.evaluation.accuracy import require_alike

__all__ = ["matthews_correlation"]


def matthews_correlation(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Give the correlation of labels and predictions, -1 to 1: the figure of GLUE's CoLA.

    MCC = (c · s - Σ p_k · t_k) / √((s² - Σ p_k²) (s² - Σ t_k²)), with c right ones of s items, and label k
    predicted p_k and true t_k times; for two labels the square root of chi² / s with a sign. 0 when one list
    is the same throughout, for which it is not defined.

    Raises BadInputError for lists that are empty or of unlike length.
    Matthews 1975, https://doi.org/10.1016/0005-2795(75)90109-9; for more labels: Gorodkin 2004,
    https://doi.org/10.1016/j.compbiolchem.2004.09.006
    """
    from sklearn import metrics

    require_alike(gold, predicted)
    if len({*gold, *predicted}) == 1:
        return 0.0  # scikit-learn gives the same, with a warning
    return float(metrics.matthews_corrcoef(gold, predicted))
