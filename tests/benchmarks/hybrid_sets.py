"""Judged sets for hybrid search: those that chose how words are weighed, and those that report.

The choosing ones are made of labels, pairs and splits that no reporting set has: titles and abstracts, two
halves of an abstract, a sentence of an article and the article's other paragraphs, duplicates, paraphrases
and entailments (with contradictions among the documents, and once without a common stem), questions of one
intent, and the training claims of SciFact, whose abstracts its test claims share.
"""

import csv
import gzip
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import Stemmer

from nearsay.data import samples
from nearsay.data.retrieval_set import RetrievalSet, read_retrieval_set

__all__ = ["CHOOSING", "REPORTING", "judged_set"]

REPORTING = ("scifact-test", "xquad", "acl-test", "cacm", "npl", "time", "samples")
_FOLDERS = {"xquad": "ir_xquad_en", "cacm": "ir_cacm", "npl": "ir_npl", "time": "ir_time"}
_SEED = 5
_QUERIES = 400  # of a choosing set, drawn by chance

Row = Mapping[str, str]


def judged_set(name: str, data: Path) -> RetrievalSet:
    """One of the sets, from a folder as its benchmark describes it."""
    if name in CHOOSING:
        return _drawn(_CHOOSING[name](name, data))
    if name == "acl-test":
        return _papers(name, data)
    if name == "samples":
        return read_retrieval_set(samples.folder())
    if name == "scifact-test":
        return read_retrieval_set(data / "ir_scifact", "test")
    return read_retrieval_set(data / _FOLDERS[name])


def _drawn(whole: RetrievalSet) -> RetrievalSet:
    ids = list(whole.queries)
    random.Random(_SEED).shuffle(ids)  # noqa: S311 - a benchmark's draw
    queries = {id_: whole.queries[id_] for id_ in ids[:_QUERIES]}
    return RetrievalSet(whole.name, whole.corpus, queries, {id_: whole.judgements[id_] for id_ in queries})


def _paired(name: str, pairs: list[tuple[str, str]], others: list[str] | None = None) -> RetrievalSet:
    """(query, its one document); documents that answer nothing."""
    corpus = {f"d{at}": document for at, (_, document) in enumerate(pairs)}
    corpus |= {f"n{at}": document for at, document in enumerate(others or [])}
    queries = {f"q{at}": query for at, (query, _) in enumerate(pairs) if query}
    return RetrievalSet(name, corpus, queries, {id_: {f"d{id_[1:]}": 1} for id_ in queries})


def _papers(name: str, data: Path) -> RetrievalSet:
    return _paired(name, [(row["title"], row["abstract"]) for row in _acl(data, name.split("-")[1])])


def _abstracts(name: str, data: Path) -> RetrievalSet:
    return _paired(name, [(row["abstract"], row["title"]) for row in _acl(data, "dev")])


def _halves(name: str, data: Path) -> RetrievalSet:
    """The second half of an abstract finds its title with the first half."""
    pairs = []
    for row in _acl(data, "dev"):
        sentences = re.split(r"(?<=[.!?]) +", row["abstract"])
        half = len(sentences) // 2
        if half > 1:
            pairs.append((" ".join(sentences[half:]), " ".join([row["title"], *sentences[:half]])))
    return _paired(name, pairs)


def _claims(_name: str, data: Path) -> RetrievalSet:
    return read_retrieval_set(data / "ir_scifact", "train")


def _duplicates(name: str, data: Path) -> RetrievalSet:
    rows = _rows(data / "quora_duplicates" / "train.tsv.gz")[:8000]
    first, second = list(rows[0])[:2]
    return _paired(name, [(row[first], row[second]) for row in rows])


def _intents(name: str, data: Path) -> RetrievalSet:
    documents, questions = (_rows(data / "banking77" / f"{split}.tsv") for split in ("train", "test"))
    of: dict[str, dict[str, int]] = {}
    for at, row in enumerate(documents):
        of.setdefault(row["label"], {})[f"d{at}"] = 1
    corpus = {f"d{at}": row["text"] for at, row in enumerate(documents)}
    queries = {f"q{at}": row["text"] for at, row in enumerate(questions)}
    return RetrievalSet(
        name, corpus, queries, {f"q{at}": of[row["label"]] for at, row in enumerate(questions)}
    )


def _articles(name: str, data: Path) -> RetrievalSet:
    """A sentence finds the paragraphs of its article; its own paragraph is not there."""
    found = RetrievalSet(name, {}, {}, {})
    chance = random.Random(_SEED)  # noqa: S311 - a benchmark's draw
    for article, paragraphs in enumerate(_paragraphs(data / "text_wikitext2_eval")):
        asked, kept = paragraphs[: len(paragraphs) // 3], paragraphs[len(paragraphs) // 3 :]
        ids = [f"d{article} {at}" for at in range(len(kept))]
        found.corpus.update(zip(ids, kept, strict=True))
        for at, paragraph in enumerate(asked):
            sentences = [one for one in paragraph.split(" . ") if len(one.split()) > 8]
            if sentences:
                found.queries[f"q{article} {at}"] = chance.choice(sentences)
                found.judgements[f"q{article} {at}"] = dict.fromkeys(ids, 1)
    return found


def _paragraphs(folder: Path) -> list[list[str]]:
    articles: list[list[str]] = []
    for split in ("test", "valid"):
        for raw in (folder / f"{split}.txt").read_text("utf-8").splitlines():
            line = re.sub(r" @(.)@ ", r"\1", raw.strip())
            if re.fullmatch(r"= [^=].*[^=] =", line):
                articles.append([])
            elif articles and not line.startswith("=") and len(line.split()) >= 30:
                articles[-1].append(line)
    return articles


def _paraphrases(name: str, data: Path) -> RetrievalSet:
    rows = _rows(data / "stsb" / "train.tsv")
    return _paired(
        name, [(row["sentence1"] if float(row["score"]) >= 4 else "", row["sentence2"]) for row in rows]
    )


def _entailed(name: str, data: Path) -> RetrievalSet:
    rows = _rows(data / "nli_triplets" / "train.tsv")[:6000]
    apart = name == "entailed, no common stem"
    pairs = [
        ("" if apart and _stems(row["anchor"]) & _stems(row["positive"]) else row["anchor"], row["positive"])
        for row in rows
    ]
    return _paired(name, pairs, [row["negative"] for row in rows])


def _stems(text: str) -> set[str]:
    stemmed = Stemmer.Stemmer("porter").stemWords(re.findall(r"\w+", text.lower()))
    return {stem for stem in stemmed if len(stem) > 3}


def _acl(data: Path, split: str) -> list[Row]:
    with gzip.open(data / "acl_abstracts" / "papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["split"] == split]
    return [row for row in rows if row["title"].strip() and row["abstract"].strip()]


def _rows(file: Path) -> list[Row]:
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


_CHOOSING: Mapping[str, Callable[[str, Path], RetrievalSet]] = {
    "acl-dev": _papers,
    "abstracts to titles": _abstracts,
    "halves of abstracts": _halves,
    "scifact-train": _claims,
    "quora duplicates": _duplicates,
    "banking77 intents": _intents,
    "articles of wikitext": _articles,
    "stsb paraphrases": _paraphrases,
    "entailed": _entailed,
    "entailed, no common stem": _entailed,
}
CHOOSING = tuple(_CHOOSING)
