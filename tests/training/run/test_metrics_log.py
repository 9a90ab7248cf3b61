"""A run's metrics as JSON lines."""

import errno
import json
import os
from pathlib import Path

import pytest

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.training.run.metrics_log import MetricsLog, read_metrics


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_lines_are_read_as_they_were_appended(file: Path) -> None:
    log = MetricsLog(file)
    log.append({"step": 1, "loss": 0.1 + 0.2})
    log.append({"step": 1, "evaluation": {"accuracy": 0.5}})
    assert read_metrics(file) == [
        {"step": 1, "loss": 0.30000000000000004},
        {"step": 1, "evaluation": {"accuracy": 0.5}},
    ]
    assert len(file.read_text().splitlines()) == 2


def test_what_is_no_number_is_null_since_json_has_no_word_for_it(file: Path) -> None:
    MetricsLog(file).append(
        {"step": 1, "loss": float("inf"), "evaluation": {"f1": float("nan"), "mcc": -0.5}}
    )
    told = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert told == {"step": 1, "loss": None, "evaluation": {"f1": None, "mcc": -0.5}}


def test_rewinding_takes_back_what_came_after_the_step(file: Path) -> None:
    log = MetricsLog(file)
    for step in (2, 4, 4, 6):
        log.append({"step": step})
    assert log.rewind(4) == [{"step": 2}, {"step": 4}, {"step": 4}]
    assert file.read_text() == '{"step": 2}\n{"step": 4}\n{"step": 4}\n'
    log.append({"step": 5})
    assert [line["step"] for line in read_metrics(file)] == [2, 4, 4, 5]


def test_rewinding_a_log_that_is_not_there_begins_one(file: Path) -> None:
    assert MetricsLog(file).rewind(0) == []
    assert file.read_bytes() == b""


def test_a_log_that_is_not_there_has_no_lines(file: Path) -> None:
    assert read_metrics(file) == []


@pytest.mark.parametrize(
    "cut", [b'{"step": 2, "lo', b'{"step": 2, "loss": "\xe4', b"\0\0\0\0", b"2", b"null\n"]
)
def test_a_last_line_that_was_cut_short_is_left_out_and_replaced(file: Path, cut: bytes) -> None:
    file.write_bytes(b'{"step": 1}\n' + cut)
    assert read_metrics(file) == [{"step": 1}]
    log = MetricsLog(file)
    log.rewind(9)
    log.append({"step": 2})
    assert file.read_text() == '{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_its_remedy(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DiskFullError, match=r"no room .*metrics\.jsonl.*Free some space"):
        MetricsLog(file).append({"step": 1})


def test_a_log_that_cannot_be_written_is_told_with_its_remedy(file: Path) -> None:
    file.mkdir()
    with pytest.raises(NearsayError, match=r"metrics\.jsonl cannot be written \(Is a directory\)"):
        MetricsLog(file).append({"step": 1})


def test_a_full_disk_while_rewinding_leaves_the_log_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MetricsLog(file)
    log.append({"step": 1})
    log.append({"step": 2})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError):
        log.rewind(1)
    assert [line["step"] for line in read_metrics(file)] == [1, 2]
    assert list(file.parent.glob(f"{TEMPORARY_PREFIX}*")) == []
