"""The command that tunes, from what a form says."""

from nearsay.indexer.plans.plan import RecallContract

__all__ = ["tune_arguments"]


def tune_arguments(collection: str, recall: float, at: int, memory: str) -> list[str]:
    """What stands behind `nearsay`; BadInputError for a contract that cannot be."""
    share, limit = f"{recall:g}@{at}", memory.strip().replace(" ", "") or "none"
    RecallContract.parse(share, limit)
    return ["index", "tune", "--recall", share, "--memory", limit, "--", collection]
