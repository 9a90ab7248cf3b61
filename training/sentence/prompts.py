"""What an encoder wants put before a text: found in its folder, under whatever names, or missed there."""

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.source import EncoderSource
from nearsay.training.sentence.text_encoder import TextKind

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Under these sentence-transformers' encode_query and encode_document find them.
SAVED_NAMES = {TextKind.QUERY: "query", TextKind.PASSAGE: "document"}
# The names of a prompt for searching, in the order in which they are looked for.
_NAMES = {
    TextKind.QUERY: ("query", "search_query", "retrieval.query", "web_search_query", "s2p_query"),
    TextKind.PASSAGE: ("document", "passage", "corpus", "search_document", "retrieval.passage"),
}
# Else a name with one of these words in it.
_WORDS = {
    TextKind.QUERY: frozenset({"query", "queries", "question"}),
    TextKind.PASSAGE: frozenset({"document", "documents", "doc", "passage", "passages", "corpus"}),
}
# Families that were trained with prompts which their folders do not hold, by their names on the hub.
_BGE = {
    "en": "Represent this sentence for searching relevant passages: ",
    "zh": "为这个句子生成表示以用于检索相关文章：",
}
_FAMILIES = (
    (r"e5-(small|base|large)(?!.*instruct)", "E5", {"query": "query: ", "document": "passage: "}),
    (r"bge-(small|base|large)-en", "BGE", {"query": _BGE["en"], "document": ""}),
    (r"bge-(small|base|large)-zh", "BGE", {"query": _BGE["zh"], "document": ""}),
)


def prompts_of(folder: EncoderFolder) -> dict[TextKind, str]:
    """The prompt for each kind of text, "" if the encoder's settings have none.

    For each kind, it is the first of these that exists and is not empty:

    1. the prompt of a usual name: query, search_query, retrieval.query, web_search_query, s2p_query, or
       document, passage, corpus, search_document, retrieval.passage
    2. the prompt of a name with such a word in it ("Query", "question", "doc-prompt"), if all of these have
       the same text
    3. the default prompt (`default_prompt_name`), unless it is the one of the other kind

    Prompts for other tasks (classification, clustering) are ignored. Raises NearsayError for invalid
    settings.
    """
    return _texts(*_settings(folder))


def prompts_of_model(model: "SentenceTransformer") -> dict[TextKind, str]:
    """The prompts of a loaded model, by the rules of `prompts_of`."""
    stored = {name: text or "" for name, text in model.prompts.items()}
    return _texts(stored, model.default_prompt_name)


def other_prompt_names(folder: EncoderFolder) -> dict[str, JsonValue]:
    """The names of the prompts in use that sentence-transformers does not look for."""
    chosen = _chosen(*_settings(folder))
    usual = {kind: _NAMES[kind][:1] if kind is TextKind.QUERY else _NAMES[kind][:3] for kind in TextKind}
    return {str(kind): name for kind, name in chosen.items() if name is not None and name not in usual[kind]}


def other_prompts(stored: Mapping[str, str | None], used: Mapping[TextKind, str]) -> dict[str, str]:
    """A model's prompts, except those for queries and passages.

    used: what a query and a passage get; if one gets none, prompts that might be taken for it are removed
    """
    return {
        name: text or ""
        for name, text in stored.items()
        if not any(
            name in _NAMES[kind] or (not used[kind] and _words(name) & _WORDS[kind]) for kind in TextKind
        )
    }


def prompt_note(source: EncoderSource) -> str | None:
    """A note on an encoder's prompts, or None if they are unambiguous.

    The folder has several candidates, or none although its family was trained with prompts.
    """
    stored, default = _settings(source.folder)
    chosen = _chosen(stored, default)
    for kind, name in chosen.items():
        if name is None and (meant := _meant(stored, kind)):
            told = ", ".join(f"{other} ({stored[other]!r})" for other in meant)
            return (
                f"{source.name} has several prompts that may be meant for a {kind}, so none is used: {told}. "
                f"Write the one to use as {SAVED_NAMES[kind]!r} into the prompts of a copy's "
                f"config_sentence_transformers.json, or train with --{kind}-prompt"
            )
    if any(name is not None for name in chosen.values()):
        return None
    config = source.folder.read_settings(source.folder.transformer_folder() / "config.json")
    names = (source.name, str(config.get("_name_or_path", "")))
    for pattern, family, prompts in _FAMILIES:
        if any(re.search(rf"(^|[/_-]){pattern}", name) for name in names):
            return _missing(source, family, prompts)
    return None


def _missing(source: EncoderSource, family: str, prompts: Mapping[str, str]) -> str:
    given = {kind: text for kind, name in SAVED_NAMES.items() if (text := prompts[name])}
    wanted = " and ".join(f"{text!r} before each {kind}" for kind, text in given.items())
    options = " ".join(f"--{kind}-prompt {shlex.quote(text)}" for kind, text in given.items())
    code = (
        "from sentence_transformers import SentenceTransformer as S; "
        f"S({str(source.folder.path)!r}, prompts={prompts!r})"
        '.save("with-prompts")'
    )
    return (
        f"{source.name} is called like the family {family}, which was trained with {wanted}, and its folder "
        "holds no prompts; it finds less without them. Make a folder that has them and use that: "
        f"python -c {shlex.quote(code)}; or train it with {options}"
    )


def _settings(folder: EncoderFolder) -> tuple[dict[str, str], str | None]:
    """The prompts that are texts, and the default one's name."""
    settings = folder.settings()
    stored, default = settings.get("prompts"), settings.get("default_prompt_name")
    if stored is not None and not isinstance(stored, dict):
        raise NearsayError(
            f"the prompts of the encoder in {folder.path} are not a JSON object. Save it again"
        )
    texts = {name: text for name, text in (stored or {}).items() if isinstance(text, str)}
    return texts, default if isinstance(default, str) else None


def _texts(stored: Mapping[str, str], default: str | None) -> dict[TextKind, str]:
    return {kind: "" if name is None else stored[name] for kind, name in _chosen(stored, default).items()}


def _chosen(stored: Mapping[str, str], default: str | None) -> dict[TextKind, str | None]:
    """The name of each kind's prompt, by the rules of `prompts_of`."""
    chosen: dict[TextKind, str | None] = {kind: _own(stored, kind) for kind in TextKind}
    if default is not None and stored.get(default) and default not in chosen.values():
        chosen = {kind: name or default for kind, name in chosen.items()}
    return chosen


def _own(stored: Mapping[str, str], kind: TextKind) -> str | None:
    for name in _NAMES[kind]:
        if stored.get(name):
            return name
    meant = _meant(stored, kind)
    return meant[0] if len({stored[name] for name in meant}) == 1 else None


def _meant(stored: Mapping[str, str], kind: TextKind) -> list[str]:
    return [name for name, text in stored.items() if text and _words(name) & _WORDS[kind]]


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
