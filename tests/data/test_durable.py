"""Files that are there whole or not at all."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming

from nearsay.data import durable
from nearsay.data.durable import (
    TEMPORARY_PREFIX,
    file_sha256,
    make_folder,
    new_folder,
    read_refusal,
    replacing,
    write_by_hash,
)
from nearsay.data.errors import BadInputError, DiskFullError, NearsayError, StorageError

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_name_with_a_zero_byte_is_refused_before_the_work(tmp_path: Path) -> None:
    for path in (tmp_path / "a\0b", tmp_path / "a\0b" / "c"):
        for opened in (replacing(path), new_folder(path)):
            with pytest.raises(BadInputError, match="zero byte"), opened:
                pytest.fail("nothing can come of it")
    assert names(tmp_path) == []


def test_a_file_is_named_by_the_hash_of_its_parts_together(tmp_path: Path) -> None:
    path = write_by_hash(tmp_path / "new" / "folder", [b"a", memoryview(b"b"), b"", b"c"], ".bin")
    assert path == tmp_path / "new" / "folder" / f"{ABC}.bin"
    assert path.read_bytes() == b"abc"
    assert file_sha256(path) == ABC
    assert names(path.parent) == [f"{ABC}.bin"]


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_content_reads_back_under_its_hash(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = write_by_hash(folder, parts, ".bin")
    assert path.read_bytes() == b"".join(parts)
    assert path.stem == hashlib.sha256(b"".join(parts)).hexdigest()
    assert names(folder) == [path.name]


def test_the_same_content_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_by_hash(tmp_path, [b"abc"], ".bin")
    before = first.stat()
    monkeypatch.setattr(durable, "replacing", failing(errno.EIO))
    assert write_by_hash(tmp_path, [b"ab", b"c"], ".bin") == first
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_of_that_name_with_other_content_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{ABC}.bin").write_bytes(b"ab")
    assert write_by_hash(tmp_path, [b"abc"], ".bin").read_bytes() == b"abc"
    assert names(tmp_path) == [f"{ABC}.bin"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_leaves_nothing_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    target: Any = os if step == "fsync" else Path
    monkeypatch.setattr(target, step, failing(number))
    with pytest.raises(DiskFullError, match=r"no room .*; nothing half-written ") as raised:
        write_by_hash(tmp_path, [b"abc"], ".bin")
    assert str(raised.value) == Naming("kept", "same command")
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "a.bin") as stream:
            stream.write(b"half of ")
            stream.flush()
            failing(errno.ENOSPC)()

    with pytest.raises(DiskFullError, match=r"a\.bin"):
        write()
    assert names(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_any_other_error_of_the_disk_is_told_in_a_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target: Any = os if step == "fsync" else Path
    monkeypatch.setattr(target, step, failing(errno.EIO))
    with pytest.raises(NearsayError, match=r"cannot be written \(Input/output error\)"):
        write_by_hash(tmp_path, [b"abc"], ".bin")
    assert names(tmp_path) == []


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", failing(errno.EACCES))
    with pytest.raises(NearsayError, match=r"a\.bin .*written.*rights"):
        replacing(tmp_path / "a.bin").__enter__()
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_what_does_not_read_back_as_written_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "file_sha256", lambda _: "0" * 64)
    with pytest.raises(NearsayError, match=r"read back.*disk"):
        write_by_hash(tmp_path, [b"abc"], ".bin")
    assert names(tmp_path) == []


@pytest.mark.parametrize("raised", [OSError(errno.EIO, "broken"), ValueError("no"), KeyboardInterrupt()])
def test_an_error_while_replacing_keeps_the_old_file(tmp_path: Path, raised: BaseException) -> None:
    path = tmp_path / "report.jsonl"
    path.write_bytes(b"old")

    def write() -> None:
        with replacing(path) as stream:
            stream.write(b"new, but not all")
            raise raised

    with pytest.raises(NearsayError if isinstance(raised, OSError) else type(raised)):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["report.jsonl"]


def test_the_old_file_stands_until_the_new_one_is_flushed_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.jsonl"
    path.write_bytes(b"old")
    seen: list[tuple[bytes, list[bytes]]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        under_way = [found.read_bytes() for found in tmp_path.glob(f"{TEMPORARY_PREFIX}*")]
        seen.append((path.read_bytes(), under_way))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(path) as stream:
        stream.write(b"new")
    assert seen == [(b"old", [b"new"]), (b"new", [])]  # the file's content first, then the folder's entry
    assert path.read_bytes() == b"new"


def test_who_may_read_a_file_may_read_what_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    path.touch(0o600)
    with replacing(path) as stream:
        (temporary,) = tmp_path.glob(f"{TEMPORARY_PREFIX}*")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # before anything is in it
        stream.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_takes_a_files_place_is_of_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.jsonl"
    path.touch()
    path.chmod(0o640)
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda *said: given.append(said))
    with replacing(path) as stream:
        (temporary,) = tmp_path.glob(f"{TEMPORARY_PREFIX}*")
        stream.write(b"new")
    assert given == [(temporary, -1, path.stat().st_gid)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o640, 0o600), (0o664, 0o644), (0o604, 0o600), (0o666, 0o666), (0o2750, 0o700)]
)
def test_a_group_that_comes_in_the_place_of_another_gets_no_rights_of_it(
    tmp_path: Path, mode: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    path = tmp_path / "report.jsonl"
    path.touch()
    path.chmod(mode)
    monkeypatch.setattr(os, "chown", refuse)
    before = path.stat()
    of_others = os.stat_result([*before[:5], before.st_gid + 1, *before[6:]])
    taken = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: of_others if self == path else taken(self, **how))
    with replacing(path) as stream:
        stream.write(b"new")
    assert stat.S_IMODE(taken(path).st_mode) == kept


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with replacing(path) as first, replacing(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # the block that ended last
    assert names(tmp_path) == ["a.bin"]


def test_files_of_a_new_folder_are_readable_for_whom_the_folder_is(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with new_folder(tmp_path / "model") as folder:
            (folder / "inner").mkdir()
            for place in (folder / "weights", folder / "inner" / "weights"):
                place.write_bytes(b"1")
                place.chmod(0o600)
    finally:
        os.umask(before)
    for place in ("weights", "inner/weights"):
        assert stat.S_IMODE((tmp_path / "model" / place).stat().st_mode) == 0o640


def test_every_folder_that_is_made_is_entered_durably_in_the_one_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronised: list[Path] = []
    monkeypatch.setattr(durable, "synchronise", synchronised.append)
    make_folder(tmp_path / "a" / "b" / "c")
    assert synchronised == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    make_folder(tmp_path / "a" / "b" / "c")
    assert len(synchronised) == 3
    write_by_hash(tmp_path / "d" / "e", [b"abc"], ".bin")
    assert synchronised[3:] == [tmp_path, tmp_path / "d", tmp_path / "d" / "e"]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE])
def test_a_file_that_cannot_be_read_back_is_a_fault_and_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(durable, "file_sha256", failing(number))
    with pytest.raises(StorageError) as raised:
        write_by_hash(tmp_path, [b"abc"], ".bin")
    assert os.strerror(number) in str(raised.value)
    assert str(tmp_path / f"{ABC}.bin") in str(raised.value)
    assert "space" not in str(raised.value)
    assert names(tmp_path) == []


def test_a_whole_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_by_hash(tmp_path, [b"abc"], ".bin")
    monkeypatch.setattr(durable, "file_sha256", failing(errno.EIO))
    with pytest.raises(StorageError, match=f"{ABC}.bin"):
        write_by_hash(tmp_path, [b"abc"], ".bin")
    assert names(tmp_path) == [f"{ABC}.bin"]


def test_a_read_only_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", failing(errno.EROFS))
    with pytest.raises(StorageError, match=r"a\.bin .*\(Read-only file system\)"):
        replacing(tmp_path / "a.bin").__enter__()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "ulimit -n"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "rights"),
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "share"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "disk"),
        (MemoryError(), "memory"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_remedy(error: OSError | MemoryError, said: str) -> None:
    refusal = read_refusal(Path("/somewhere/a.bin"), error)
    assert str(refusal).startswith("/somewhere/a.bin cannot be read (")
    assert said in str(refusal)
    assert str(refusal).endswith("then try again")


def test_a_pipe_is_written_into_and_a_link_stays(tmp_path: Path) -> None:
    pipe, target, link = tmp_path / "pipe", tmp_path / "target", tmp_path / "link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    target.write_bytes(b"before")
    link.symlink_to(target)
    for place in (pipe, link):
        with replacing(place) as stream:
            stream.write(b"after")
    assert os.read(reader, 9) == b"after"
    os.close(reader)
    assert (pipe.is_fifo(), link.is_symlink(), target.read_bytes()) == (True, True, b"after")
