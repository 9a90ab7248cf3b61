"""A tiny task, and a watch on what a run leaves behind."""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearsay.training.run import loop
from nearsay.training.run.run_folder import RunFolder

_SPEC = importlib.util.spec_from_file_location("linear_task", Path(__file__).parent / "linear_task.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["linear_task"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["linear_task"])


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run's folder; the hardware's peak, which takes a fifth of a second to measure, is 1 Gflop/s."""
    monkeypatch.setattr(loop, "hardware_peak", lambda *_: 1e9)
    run_folder = RunFolder(tmp_path / "out")
    run_folder.begin({"task": "linear"}, sys.modules["linear_task"].ENVIRONMENT)
    return run_folder
