"""How figures are told to people: their names, and their decimals."""

from typing import Final

_NAMES: Final = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "average_precision": "AP",
    "best_f1": "best F1",
    "best_f1_threshold": "best F1 at",
    "best_accuracy": "best accuracy",
    "best_accuracy_threshold": "best accuracy at",
    "ndcg_at_10": "nDCG@10",
    "mrr_at_10": "MRR@10",
    "recall_at_100": "recall@100",
    "map": "MAP",
    "v_measure": "V-measure",
    "macro_f1": "macro F1",
}
_TIMES_100: Final = ("spearman", "pearson")


def figure_name(metric: str) -> str:
    """Return a metric's name as people write it: `spearman_dot` is `Spearman dot`."""
    for similarity in ("dot", "euclidean", "manhattan"):
        if metric.endswith(f"_{similarity}"):
            return f"{figure_name(metric.removesuffix(f'_{similarity}'))} {similarity}"
    return _NAMES.get(metric, metric.replace("_", " "))


def shown_figure(metric: str, value: float) -> str:
    """Return a figure with the decimals that its field tells: 2 of a correlation times 100, 4 of a share."""
    return f"{value:.{2 if metric.startswith(_TIMES_100) else 4}f}"


def shown_interval(metric: str, low: float, high: float) -> str:
    """Return an interval, as `79.86 to 84.21`."""
    return f"{shown_figure(metric, low)} to {shown_figure(metric, high)}"
