"""Resolves what a user names to files: files, folders, patterns, standard input."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.read_options import Format, format_of, readable_suffixes

STDIN_NAME: Final = "<stdin>"
_MAGIC: Final = re.compile(r"[*?[]")
_SUFFIXES_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, or standard input."""

    name: str  # as the user gave it, for messages
    path: Path | None  # absolute and resolved; None: standard input
    format: Format | None  # None: detected from its first byte (a pipe)
    size: int | None  # bytes on disk; None: unknown (a pipe)
    named: bool = True  # by the user; False: found in a folder or by a pattern
    called: str | None = None  # its path relative to `relative_to`; None: its absolute path

    @property
    def document_source(self) -> str | None:
        """The source of its documents: the path; None for standard input and pipes."""
        if self.path is None or self.size is None:
            return None
        return self.called or self.path.as_posix()

    def relative_to(self, folder: Path) -> "Source":
        """The source with a path relative to a folder, or to a link; BadInputError if it is elsewhere."""
        if self.path is None or self.size is None:
            return self
        base, named = folder.resolve(), Path(self.name)
        places = (self.path, named.parent.resolve() / named.name)  # the second: where the link to it lies
        called = next(
            (place.relative_to(base).as_posix() for place in places if place.is_relative_to(base)), None
        )
        if called is None:
            raise BadInputError(
                f"{self.name} does not lie in {folder}, which names are to be relative to. "
                "Name a folder that holds every file"
            )
        return replace(self, called=called, name=called.encode("utf-8", "backslashreplace").decode())


def find_sources(given: Sequence[str | Path], wanted: Format | None) -> tuple[list[Source], list[str]]:
    """Resolve what the user named to files in order, with notes on what was skipped.

    wanted: the format given by the user, which overrides the names of files and of a pattern's matches; in a
            folder, it selects the files with its suffixes

    Raises BadInputError if something does not exist, cannot be read, matches nothing, or has an unknown
    suffix.
    """
    if not given:
        raise BadInputError("nothing to read; name a file, a folder, a pattern such as 'notes/**/*.md', or -")
    found: dict[Path | str, Source] = {}
    notes: list[str] = []
    for item in given:
        if not isinstance(item, str | os.PathLike):
            raise BadInputError(f"{item!r} is no name of a file. Give the names one by one: add(*names)")
        for source in _resolve(str(item), wanted, notes):
            key = STDIN_NAME if source.path is None else source.path
            if source.path is None and key in found:
                raise BadInputError("standard input (-) is named twice; name it once")
            found.setdefault(key, source)
    return list(found.values()), notes


def _resolve(item: str, wanted: Format | None, notes: list[str]) -> Iterator[Source]:
    if item == "-":
        if wanted is not None and wanted.needs_a_file:
            raise BadInputError(f"{wanted} cannot be read from standard input; name a file")
        yield Source(STDIN_NAME, None, wanted, None)
        return
    path = Path(item)
    try:
        exists = path.exists()
    except PermissionError as error:
        raise BadInputError(
            f"{item} lies in a folder that this user may not enter; change its permissions: chmod u+x FOLDER"
        ) from error
    except (OSError, ValueError) as error:  # a name that is too long, or holds NUL
        raise BadInputError(f"{item!r} cannot be a file: {error}. Check the name") from error
    if not item.strip():
        raise BadInputError("the name of a file is empty; name a file, a folder or a pattern")
    if exists and path.is_dir():
        yield from _in_folder(path, wanted, notes)
    elif exists:
        yield _named_file(path, item, wanted)
    elif _MAGIC.search(item):
        yield from _matches(item, wanted, notes)
    else:
        raise BadInputError(f"{item} does not exist. Check the name, or quote a pattern: 'notes/**/*.md'")


def _named_file(path: Path, item: str, wanted: Format | None) -> Source:
    if not os.access(path, os.R_OK):
        raise BadInputError(f"{item} may not be read by this user; change its permissions: chmod u+r {item}")
    kind = wanted or format_of(path)
    if not path.is_file():  # a pipe, as /dev/fd/63 of <(command): no name to go by, no size
        if not (path.is_fifo() or path.is_socket()):  # /dev/zero never ends, a disk is no text
            raise BadInputError(f"{item} is a device, no file. Name a file, or pipe what it gives into -")
        if kind is not None and kind.needs_a_file:
            raise BadInputError(f"{kind} cannot be read from the pipe {item}; name a file")
        return Source(item, path.absolute(), kind, None)
    if kind is None:
        raise BadInputError(
            f"{item}: unknown suffix {path.suffix!r}; the known suffixes are {readable_suffixes()}. Save it "
            "as one of these, or say what a text holds where the command takes that (--input-format txt)"
        )
    return _file(path, item, kind, named=True)


def _file(path: Path, name: str, kind: Format, *, named: bool) -> Source:
    printable = name.encode("utf-8", "backslashreplace").decode()  # a file's name may be any bytes
    return Source(printable, path.resolve(), kind, path.stat().st_size, named)


def _in_folder(folder: Path, wanted: Format | None, notes: list[str]) -> Iterator[Source]:
    skipped: Counter[str] = Counter()
    sources = []
    for root, folders, files in os.walk(folder, onerror=lambda _: skipped.update(["unreadable folder"])):
        skipped["hidden"] += sum(name.startswith(".") for name in (*folders, *files))
        skipped["linked folder"] += sum(
            Path(root, name).is_symlink() for name in folders if not name.startswith(".")
        )
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(root, name)
            if name.startswith("."):
                continue
            if (otherwise := _no_file(path)) is not None:
                skipped[otherwise] += 1
                continue
            kind = format_of(path)
            if kind is None or (wanted is not None and kind is not wanted):
                skipped[path.suffix.lower() or "no suffix"] += 1
            else:
                sources.append(_file(path, str(path), kind, named=False))
    refusal = (
        f"the folder {folder} holds no {wanted or 'readable'} file",
        f"; the known suffixes are {readable_suffixes()}",
    )
    yield from _found(f"{folder}", sources, skipped, refusal, notes)


def _matches(pattern: str, wanted: Format | None, notes: list[str]) -> Iterator[Source]:
    parts = Path(pattern).parts
    # What is there is no pattern: notes [old]/*.md
    paths_to = (Path(*parts[: index + 1]) for index in range(len(parts)))
    fixed = next(index for index, place in enumerate(paths_to) if not place.exists())
    base = Path(*parts[:fixed])
    rest = [*parts[fixed:], *(["*"] if parts[-1] == "**" else [])]
    try:
        paths = sorted(base.glob("/".join(rest)))
    except (ValueError, NotImplementedError) as error:
        raise BadInputError(f"{pattern} is no pattern: {error}. Write one such as 'notes/**/*.md'") from error
    skipped: Counter[str] = Counter()
    sources = []
    for path in paths:
        parts_below = path.relative_to(base).parts
        hidden = any(
            part.startswith(".") and not wild.startswith(".")
            for part, wild in zip(
                reversed(parts_below), [*reversed(rest), *["**"] * len(parts_below)], strict=False
            )
        )
        if hidden or path.is_dir():
            continue
        if (otherwise := _no_file(path)) is not None:
            skipped[otherwise] += 1
            continue
        kind = wanted or format_of(path)
        if kind is None:
            skipped[path.suffix.lower() or "no suffix"] += 1
        else:
            sources.append(_file(path, str(path), kind, named=False))
    refusal = (
        f"{pattern} matches no readable file",
        ". Check the pattern, or say what the files hold where the command takes that (--input-format)",
    )
    yield from _found(pattern, sources, skipped, refusal, notes)


def _no_file(path: Path) -> str | None:
    """What is at a path instead of a file; None if it is a file."""
    if os.path.isfile(path):  # noqa: PTH113 - Path's own raises where it may not look
        return None
    return "broken link" if os.path.islink(path) else "device, pipe or unreadable file"  # noqa: PTH114 - likewise


def _found(
    place: str, sources: list[Source], skipped: Counter[str], refusal: tuple[str, str], notes: list[str]
) -> list[Source]:
    """The sources, with notes on what was skipped; raises with these if there are none."""
    kinds = [f"{count} {kind}" for kind, count in skipped.most_common() if count]
    more = len(kinds) - _SUFFIXES_SHOWN
    passed_over = ", ".join(kinds[:_SUFFIXES_SHOWN]) + (f" and {more} more kinds" if more > 0 else "")
    if not sources:
        raise BadInputError(f" (skipped: {passed_over})".join(refusal) if passed_over else "".join(refusal))
    if passed_over:
        notes.append(f"{place}: skipped {passed_over}")
    return sources
