"""Sentences with tagged words: named entities in a CoNLL file."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.data.row_files import file_lines

OUTSIDE: Final = "O"  # the tag of a word that is in no entity
_DOCUMENT_LINE: Final = "-DOCSTART-"
_COMMENT: Final = re.compile(r"# +\w[\w.]* *=|#(begin|end) document\b|#(?= )(?!.*\s(O|[BI]-\S+)\s*$)")


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence with their tags: `O`, `B-type` or `I-type`."""

    words: tuple[str, ...]
    tags: tuple[str, ...]  # one a word
    line: int  # of its first word, 1-based


@dataclass(frozen=True, slots=True)
class TaggedSentences:
    """A file of tagged sentences."""

    source: str  # the file as the user gave it
    sha256: str  # of the file, hexadecimal; the data hash of a run
    sentences: list[TaggedSentence]
    notes: list[str] = field(default_factory=list)  # oddities in it

    def __len__(self) -> int:
        return len(self.sentences)


def read_tagged_sentences(path: str | Path) -> TaggedSentences:
    """Read a CoNLL file (or its .gz): a word per line, its first column the word, its last the tag.

    Columns are separated by tabs; in a line without tabs by blanks, and in one without either by any other
    white space; blank lines separate sentences. -DOCSTART- lines of CoNLL-2003, and comments before a
    sentence, as in CoNLL-U (# text = …), are skipped. An I- that continues nothing begins an entity, as in
    conlleval; the notes count them. Raises BadInputError, naming file and line, for an invalid line.

    Tjong Kim Sang & De Meulder 2003, section 2, https://aclanthology.org/W03-0419/
    """
    sentences: list[TaggedSentence] = []
    words: list[str] = []
    tags: list[str] = []
    first = stray = 0
    for line, text in file_lines(path):
        if not text.strip() or text.startswith(_DOCUMENT_LINE) or (not words and _COMMENT.match(text)):
            if words:
                sentences.append(TaggedSentence(tuple(words), tuple(tags), first))
                words, tags = [], []
            continue
        word, tag = _word_and_tag(text, f"{path}:{line}")
        if not words:
            first = line
        stray += tag.startswith("I-") and (not tags or tags[-1][2:] != tag[2:])
        words.append(word)
        tags.append(tag)
    if words:
        sentences.append(TaggedSentence(tuple(words), tuple(tags), first))
    if not sentences:
        raise BadInputError(f"{path} holds no tagged words; give a file with a word and its tag on each line")
    if len(sentences[0].words) > 1 and all(one.words == _numbered(len(one.words)) for one in sentences):
        raise BadInputError(
            f"{path}: the first column numbers the words of each sentence, and it has to hold them. Take "
            f"the columns of the word and its tag: cut -f2,3 {shlex.quote(str(path))}"
        )
    notes = (
        [f"{path}: {stray} I- tags continue no entity of their type; each begins one, as in conlleval"]
        if stray
        else []
    )
    return TaggedSentences(str(path), file_sha256(Path(path)), sentences, notes)


def _numbered(words: int) -> tuple[str, ...]:
    return tuple(map(str, range(1, words + 1)))


def _word_and_tag(text: str, place: str) -> tuple[str, str]:
    # At blanks alone where there are any: a word may hold a no-break one, as 10 000 does in French.
    cells = text.split("\t") if "\t" in text else [cell for cell in text.split(" ") if cell]
    if len(cells) < 2:
        cells = text.split()
    if len(cells) < 2:
        raise BadInputError(
            f"{place}: {text[:40]!r} is a word without a tag; put the tag after it, with a tab between"
        )
    word, tag = cells[0].strip() or cells[0].strip(" "), cells[-1].strip()  # a word may be a no-break space
    if not word:
        raise BadInputError(f"{place}: there is no word before the tag {tag!r}; fix or remove the line")
    if tag != OUTSIDE and (tag[:2] not in {"B-", "I-"} or not tag[2:].strip()):
        raise BadInputError(
            f"{place}: the tag is {tag!r}, and tags are O, B-type and I-type; "
            "mend the line, or convert the file to BIO tags"
        )
    return word, tag
