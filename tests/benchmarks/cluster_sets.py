"""Labelled texts for clustering, from few and broad labels to many and narrow ones, in two halves.

CHOOSING sets are for choosing defaults of the clusters; REPORTING sets take no part in it: other collections
(AG News, WordNet's verbs), or other intents, novels, authors and articles than those of the choosing sets.
"mostly" one label are sets of which a part that lies apart is nearly all.
"banking77 test, all" has the intents of "banking77 train, all" and counts as choosing.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from nearsay.data.samples import folder

__all__ = ["CHOOSING", "REPORTING", "WORDNET", "read"]

CHOOSING = (
    "banking77 test, all",
    "banking77 train, all",
    "banking77 train, 20 intents",
    "banking77 train, 10 intents",
    "banking77 train, 5 intents",
    "samples, 30 subjects",
    "samples, 10 subjects",
    "samples, 5 subjects",
    "XQuAD questions by article",
    "XQuAD paragraphs by article",
    "novels, first 10",
    "novels, first 5",
    "WikiText valid by article",
    "ACL abstracts by 6 topics",
    "WordNet nouns by 6 files",
    "five collections",
    "novels, last 10",
    "mostly SciFact",
)
REPORTING = (
    "AG News",
    "banking77 test, 38 other intents",
    "banking77 test, 20 other intents",
    "banking77 test, 10 other intents",
    "novels, 27 others",
    "novels by 6 authors",
    "WikiText test by article",
    "WordNet verbs by 8 files",
    "mostly Sports",
)
WORDNET = Path("/usr/share/wordnet")  # Debian's wordnet-base
_SEED = 18
_FIRST_INTENTS = 39  # of 77 by the alphabet: the choosing sets draw from these, reporting ones from others
_TOPICS = ("machine translation", "sentiment", "dialogue", "parsing", "question answering", "summarization")
_NOUNS = {
    "05": "animal",
    "06": "artifact",
    "10": "communication",
    "15": "location",
    "18": "person",
    "20": "plant",
}
_VERBS = {
    "30": "change",
    "32": "communication",
    "35": "contact",
    "36": "creation",
    "38": "motion",
    "40": "possession",
    "41": "social",
    "29": "body",
}

Labelled = list[tuple[str, str]]  # label, text


def read(name: str, data: Path, wordnet: Path = WORDNET) -> tuple[list[str], np.ndarray]:
    """The texts of a set, and what each is about, as people said."""
    rows = list(_rows(name, data, wordnet))
    return [text for _, text in rows], np.array([label for label, _ in rows])


def _rows(name: str, data: Path, wordnet: Path) -> Labelled:
    readers: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
        "mostly Sports": lambda: _mostly("Sports", _tsv(data / "agnews" / "test.tsv"), 150),
        "mostly SciFact": lambda: _mostly("ir_scifact", list(_collections(data, 2_000)), 100),
        "AG News": lambda: _tsv(data / "agnews" / "test.tsv"),
        "banking77": lambda: _intents(name, data / "banking77"),
        "samples": lambda: _subjects(int(name.split()[1])),
        "XQuAD": lambda: _xquad(data / "qa_xquad_en" / "xquad.en.json", questions="questions" in name),
        "WikiText": lambda: _wikitext(data / "text_wikitext2_eval" / f"{name.split()[1]}.txt"),
        "WordNet nouns": lambda: _each(_wordnet(wordnet / "data.noun", _NOUNS), 600),
        "WordNet verbs": lambda: _each(_wordnet(wordnet / "data.verb", _VERBS), 600),
        "novels": lambda: _novels(name, data / "text_eltec_eng" / "novels.jsonl.gz"),
        "ACL": lambda: _each(list(_by_topic(data / "acl_abstracts" / "papers.jsonl.gz")), 450),
        "five collections": lambda: _collections(data, 400),
    }
    for kind, rows in readers.items():
        if name.startswith(kind):
            return list(rows())
    raise SystemExit(f"{name} is no set of labelled texts")


def _intents(name: str, folder: Path) -> Labelled:
    """Questions to a bank: all of a split, or those of some intents of one half of the alphabet."""
    kind, _, which = name.partition(", ")
    rows = _tsv(folder / f"{kind.split()[1]}.tsv")
    if which == "all":
        return rows
    intents = sorted({label for label, _ in rows})
    half = intents[_FIRST_INTENTS:] if "other" in which else intents[:_FIRST_INTENTS]
    return _drawn(rows, half, int(which.split()[0]))


def _subjects(count: int) -> Labelled:
    """The sample corpus, so many of its subjects."""
    found = [json.loads(line) for line in (folder() / "corpus.jsonl").read_text("utf-8").splitlines()]
    rows = [(row["metadata"]["subject"], f"{row['title']}. {row['text']}") for row in found]
    return _drawn(rows, sorted({label for label, _ in rows}), count)


def _drawn(rows: Labelled, labels: list[str], count: int) -> Labelled:
    """The texts of so many of the labels."""
    kept = set(np.random.default_rng(_SEED).permutation(labels)[:count].tolist())
    return [row for row in rows if row[0] in kept]


def _each(rows: Labelled, most: int) -> Labelled:
    """At most so many texts of each label."""
    mixed = [rows[place] for place in np.random.default_rng(_SEED).permutation(len(rows))]
    return [
        row
        for label in sorted({row[0] for row in rows})
        for row in [r for r in mixed if r[0] == label][:most]
    ]


def _mostly(label: str, rows: Labelled, few: int) -> Labelled:
    """At most 2,000 texts of one label, and few of each other."""
    return [
        *_each([row for row in rows if row[0] == label], 2_000),
        *_each([row for row in rows if row[0] != label], few),
    ]


def _tsv(path: Path) -> Labelled:
    lines = path.read_text("utf-8").splitlines()
    return [
        (row["label"], row["text"]) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]


def _jsonl(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _xquad(path: Path, *, questions: bool) -> Iterator[tuple[str, str]]:
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            if questions:
                for asked in paragraph["qas"]:
                    yield article["title"], asked["question"]
            else:
                yield article["title"], paragraph["context"]


def _wikitext(path: Path) -> Iterator[tuple[str, str]]:
    """Paragraphs of 20 words or more by article; articles of 10 such paragraphs or more."""
    articles: dict[str, list[str]] = {}
    title = ""
    for line in map(str.strip, path.read_text("utf-8").splitlines()):
        if line.startswith("= ") and not line.startswith("= ="):
            title = line.strip("= ")
        elif len(line.split()) >= 20 and not line.startswith("="):
            articles.setdefault(title, []).append(" ".join(line.split()[:100]))
    for title, paragraphs in articles.items():
        if len(paragraphs) >= 10:
            yield from ((title, paragraph) for paragraph in paragraphs)


def _wordnet(path: Path, files: dict[str, str]) -> Labelled:
    """The first definition of each synset by its lexicographer file."""
    return [
        (files[line.split()[1]], line.partition(" | ")[2].partition(";")[0].strip())
        for line in path.read_text("utf-8").splitlines()
        if not line.startswith(" ") and line.split()[1] in files
    ]


def _novels(name: str, path: Path) -> Labelled:
    """100 passages of 80 words from each, drawn from all of its text."""
    novels = sorted(_jsonl(path), key=lambda row: row["id"])
    if "other" in name or "authors" in name:  # three novels of each author; none of the other sets' novels
        novels = novels[12:-12]
        authors = [row["author"] for row in novels]
        whole = sorted({author for author in authors if authors.count(author) == 3})[:6]
        by_them = "authors" in name
        novels = [row for row in novels if (row["author"] in whole) is by_them][0 if by_them else 30 :]
    else:
        count = int(name.rsplit(maxsplit=1)[-1])
        novels = novels[:count] if "first" in name else novels[-count:]
    rows = []
    each = 50 if "authors" in name else 100
    for novel in novels:
        words = novel["text"].split()
        starts = np.random.default_rng(_SEED).permutation(len(words) // 80)[:each] * 80
        label = novel["author"] if "authors" in name else novel["title"]
        rows += [(label, " ".join(words[start : start + 80])) for start in starts.tolist()]
    return rows


def _by_topic(path: Path) -> Iterator[tuple[str, str]]:
    """Abstracts of which the title names one of six topics; the title is not in the text."""
    for row in _jsonl(path):
        named = [topic for topic in _TOPICS if topic in row["title"].lower()]
        if len(named) == 1:
            yield named[0], " ".join(row["abstract"].split()[:100])


def _collections(data: Path, most: int) -> Iterator[tuple[str, str]]:
    """At most so many texts of each of five collections, by the collection."""
    for name in ("ir_cacm", "ir_npl", "ir_time", "ir_scifact"):
        rows = [row["text"] for row in _jsonl(data / name / "corpus.jsonl.gz")]
        for place in np.random.default_rng(_SEED).permutation(len(rows))[:most].tolist():
            if rows[place].split():
                yield name, " ".join(rows[place].lower().split()[:100])
    rows = [row["abstract"] for row in _jsonl(data / "acl_abstracts" / "papers.jsonl.gz")]
    for place in np.random.default_rng(_SEED).permutation(len(rows))[:most].tolist():
        yield "acl_abstracts", " ".join(rows[place].lower().split()[:100])
