"""The fields of rows with text, id and title: given by the user, or guessed from their names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions

# Tried in this order, in any case of letters.
TEXT_NAMES: Final = (
    *("text", "passage", "body", "content", "abstract", "sentence", "question", "description", "message"),
)
ID_NAMES: Final = ("id", "_id", "docid", "doc_id", "uuid", "key")
TITLE_NAMES: Final = ("title", "name", "headline", "heading")

MISSING: Final = object()
_NAMES_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class FieldSurvey:
    """The fields of a file, as found in a header or the first rows."""

    names: tuple[str, ...]
    text_names: tuple[str, ...]  # fields with strings
    id_names: tuple[str, ...]  # fields with strings or integers
    longest: str | None = None  # the one with the longest average text, for csv, where all fields are strings
    inner_names: tuple[str, ...] = ()  # fields within a field "metadata" that contains mappings
    has: Callable[[str], bool] | None = None  # whether a dotted name exists
    left_out: tuple[str, ...] = ()  # fields of bytes or durations


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a file's rows that documents are made of."""

    text: str
    id: str | None
    title: str | None
    metadata: tuple[str, ...] | None  # None = all other fields


def reach(row: Mapping[str, object], name: str) -> object:
    """The field `name` of a row (`outer.inner` within a mapping); MISSING if there is none."""
    if name in row:
        return row[name]
    outer, dot, inner = name.partition(".")
    nested = row.get(outer) if dot else None
    return reach(nested, inner) if isinstance(nested, Mapping) else MISSING


def choose_fields(
    survey: FieldSurvey, options: ReadOptions, file: str, option: str = "--{} FIELD"
) -> tuple[Fields, str | None]:
    """Choose a file's fields. Returns them with a note on what was guessed, None if nothing was.

    option: how the user can name a field, for errors and the note

    Raises BadInputError if a named field does not exist, or no field can be the text.
    """
    known = _listed(survey.names)
    if survey.left_out:
        known += f" (and, of bytes or durations, which are no texts: {_listed(survey.left_out)})"
    for use, name in (
        ("text", options.text),
        ("id", options.id),
        ("title", options.title),
        *(("metadata", name) for name in options.metadata or ()),
    ):
        is_inner = name in survey.inner_names
        if name is not None and not _is_there(name, survey) and not (is_inner and use == "metadata"):
            inside = f" ({name!r} stands in its field 'metadata': metadata.{name})" if is_inner else ""
            raise BadInputError(
                f"{file} has no field {name!r}; its fields are {known}{inside}. "
                f"Name one of them: {option.format(use)}"
            )
    text = options.text or _guessed_text(survey, options)
    if text is None:
        raise BadInputError(
            f"{file}: the text field cannot be guessed; the fields are {known}. "
            f"Name it: {option.format('text')}"
        )
    taken = {text, options.id, options.title}
    row_id = options.id or first_named([name for name in survey.id_names if name not in taken], ID_NAMES)
    taken.add(row_id)
    title = options.title or first_named(
        [name for name in survey.text_names if name not in taken], TITLE_NAMES
    )
    fields = Fields(text, row_id, title, options.metadata)
    guessed = (options.text is None) or (options.id is None and row_id) or (options.title is None and title)
    note = _note(fields, survey, file, option.format("id"), text_guessed=options.text is None)
    return fields, note if guessed else None


def _is_there(name: str, survey: FieldSurvey) -> bool:
    return name in survey.names or (survey.has is not None and survey.has(name))


def _guessed_text(survey: FieldSurvey, options: ReadOptions) -> str | None:
    candidates = [name for name in survey.text_names if name not in {options.id, options.title}]
    named = first_named(candidates, TEXT_NAMES)
    if named is not None:
        return named
    others = [name for name in candidates if name.lower() not in ID_NAMES]
    if survey.longest is not None:
        return survey.longest if survey.longest in others else None
    return others[0] if len(others) == 1 else None


def first_named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The field with one of the wanted names, ignoring case; the first wanted name has priority."""
    for name in wanted:
        for candidate in (name, *(other for other in names if other.lower() == name)):
            if candidate in names:
                return candidate
    return None


def _note(fields: Fields, survey: FieldSurvey, file: str, option: str, *, text_guessed: bool) -> str:
    metadata = fields.metadata
    if metadata is None:
        used = {fields.text, fields.id, fields.title}
        rest = [name for name in survey.names if name not in used]
        if survey.inner_names:
            rest = [name for name in rest if name != "metadata"]
            rest += [name for name in survey.inner_names if name not in rest]
        metadata = tuple(rest)
    # Where the text's name is no usual one, the first line may be a row like others.
    by_length = text_guessed and survey.longest == fields.text and fields.text.lower() not in TEXT_NAMES
    header = "; the first line is taken as the header" if by_length else ""
    unnamed = "none" if fields.metadata == () else f"none (name one: {option})"  # texts alone need no ids
    return (
        f"{file}: text = {fields.text!r}{' (guessed)' if text_guessed else ''}, "
        f"id = {unnamed if fields.id is None else repr(fields.id)}, "
        f"title = {'none' if fields.title is None else repr(fields.title)}, "
        f"metadata = {_listed(metadata)}{header}"
    )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
