"""Two threads that import packages of many modules at once."""

__all__ = ["is_import_clash"]


def is_import_clash(error: Exception) -> bool:
    """Whether an import failed only because another thread imports the same package; the next try succeeds.

    Python gives up one of two imports that wait for each other (the package narwhals, which both altair
    and scikit-learn import, is such a case) or hands out a module that is not whole yet.
    """
    if isinstance(error, ImportError | AttributeError):
        return "partially initialized module" in str(error)
    return type(error).__name__ == "_DeadlockError"  # importlib's own, which is not to be had by name
