"""Two threads that import packages of many modules at once."""

import sys
from types import ModuleType

__all__ = ["is_import_clash"]


def is_import_clash(error: BaseException) -> bool:
    """Whether an import failed only because another thread imports the same package; the next try succeeds.

    Of two imports that wait for each other (the package narwhals, which both altair and scikit-learn import,
    is such a case) Python gives up one, or hands out a module that is not whole yet; the other import then
    meets what is left of the first. What was raised from such an error counts too.
    """
    at: BaseException | None = error
    while at is not None:
        if _is_one(at):
            return True
        at = at.__cause__
    return False


def _is_one(error: BaseException) -> bool:
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return _is_begun(error) or sys.modules.get(error.obj.__name__) is not error.obj
    if isinstance(error, ImportError):
        left = type(error) is ImportError and error.name is not None and error.name not in sys.modules
        return _is_begun(error) or left
    return type(error).__name__ == "_DeadlockError"  # importlib's own, which is not to be had by name


def _is_begun(error: BaseException) -> bool:
    return "partially initialized module" in str(error)
