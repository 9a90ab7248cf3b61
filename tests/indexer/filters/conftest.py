"""Makes `filter_expressions` importable."""

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location(
    "filter_expressions", Path(__file__).parent / "filter_expressions.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["filter_expressions"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["filter_expressions"])
