"""All judged sets in a folder."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, JudgedSet
from nearsay.training.evaluation.judged.layout import (
    Layout,
    file_layout,
    is_corpus_folder,
    judged_files,
    stem,
)
from nearsay.training.evaluation.judged.reading import read_layout


@dataclass(frozen=True, slots=True)
class SuiteSet:
    """One set of a suite, not read yet."""

    name: str  # its folder's name; with several in a folder the file's behind it; of equal ones the paths
    layout: Layout

    @property
    def kind(self) -> EvaluationKind:
        """What it asks of an encoder."""
        return self.layout.kind

    def read(self) -> JudgedSet:
        """Read it; raises BadInputError where it cannot be used."""
        return read_layout(self.layout, self.name)


@dataclass(frozen=True, slots=True)
class Suite:
    """The judged sets of a folder."""

    sets: tuple[SuiteSet, ...]
    notes: tuple[str, ...]  # what is there and was not taken, and why


def find_suite(folder: Path, *, split: str = "test", only: Sequence[str] = ()) -> Suite:
    """Find the judged sets in a folder and in the folders in it, sorted by name.

    only: names or patterns (`ir_*`) of those that are wanted; none: all
    Kinds are told by layout and columns, see `kind_of_rows`. What is not recognised is in the notes. Raises
    BadInputError when no set is there, or an `only` fits none.
    """
    found: list[SuiteSet] = []
    notes: list[str] = []
    inside = sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
    for place in (folder, *inside):
        found += _sets_in(place, split, notes, is_root=place == folder)
    counts = Counter(each.name for each in found)
    found = [
        each if counts[each.name] == 1 else replace(each, name=str(each.layout.path.relative_to(folder)))
        for each in found
    ]
    unknown = [name for name in only if not any(fnmatchcase(each.name, name) for each in found)]
    if unknown or not found:
        names = ", ".join(each.name for each in found) or "none"
        raise BadInputError(
            f"{folder} holds no judged set{' named ' + ', '.join(unknown) if unknown else ''}; those there "
            f"are: {names}. Name one of them, or another folder"
        )
    wanted = [each for each in found if not only or any(fnmatchcase(each.name, name) for name in only)]
    return Suite(tuple(sorted(wanted, key=lambda each: each.name)), () if only else tuple(notes))


def _sets_in(folder: Path, split: str, notes: list[str], *, is_root: bool) -> Iterator[SuiteSet]:
    if is_corpus_folder(folder):
        yield SuiteSet(folder.resolve().name, Layout(EvaluationKind.RETRIEVAL, folder, split))
        return
    files = judged_files(folder, split)
    if not files and not is_root:
        notes.append(f"{folder.name}: not taken, as no file of it is of the split {split!r}")
    for file in files:
        layout, reason = _recognised(file)
        alone = len(files) == 1
        name = stem(file) if is_root else folder.name if alone else f"{folder.name}/{stem(file)}"
        if layout is None:
            notes.append(f"{name}: {file.name} is not taken, as {reason}")
        else:
            yield SuiteSet(name, layout)


def _recognised(file: Path) -> tuple[Layout | None, str]:
    try:
        layout = file_layout(file)
    except NearsayError as error:
        return None, f"it cannot be read: {error}"
    if layout is None:
        return None, "its columns tell of no judgements, or not of which"
    if layout.kind is EvaluationKind.NLI and layout.train is None:
        return None, "NLI needs a train or dev file by its side"
    return layout, ""
