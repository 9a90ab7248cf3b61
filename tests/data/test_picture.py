"""Pictures as files."""

import errno
import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.picture import COLOURS, MARKS, write_picture


def _drawn(title: str = "a title") -> Figure:
    figure = Figure(figsize=(2.0, 1.0))
    figure.suptitle(title)
    return figure


@pytest.mark.parametrize(("name", "start"), [("plot.png", b"\x89PNG"), ("deep/plot.SVG", b"<?xml")])
def test_a_picture_is_written_in_the_format_of_its_name(name: str, start: bytes, tmp_path: Path) -> None:
    write_picture(tmp_path / name, _drawn)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_same_drawing_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        write_picture(tmp_path / name, _drawn)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_another_format_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"'plot\.gif' .*\.png, \.svg"):
        write_picture(tmp_path / "plot.gif", lambda: pytest.fail("it was drawn"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("title", ["Pretraining $x^{2$", "数据 𒀀 \ue000"])
def test_a_title_is_text_and_no_formula_in_any_script(title: str, tmp_path: Path) -> None:
    write_picture(tmp_path / "plot.png", lambda: _drawn(title))
    assert (tmp_path / "plot.png").is_file()


def test_a_full_disk_leaves_no_half_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=r"plot\.png"):
        write_picture(tmp_path / "plot.png", _drawn)
    assert list(tmp_path.iterdir()) == []


def test_every_colour_has_a_mark() -> None:
    assert len(set(COLOURS)) == len(set(MARKS)) == len(COLOURS) == len(MARKS)
