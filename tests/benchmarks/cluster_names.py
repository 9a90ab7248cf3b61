"""Do clusters' names tell which cluster is meant, and would a person write them?

Every set is clustered once, by nearsay's default; each cluster is cut into halves by chance. Names are made
from the texts and the centre of one half: by nearsay (with its encoder and without), by the first three of a
cluster's terms, as BERTopic names topics (c-TF-IDF of words, no English stop words, the four heaviest), and
as KeyBERT does (phrases of one to three words by cosine to the centre, thinned by maximal marginal relevance;
three of them, and one). The other half
says whether a name is right:

  encoder     the name's vector is nearest to the centre of its own cluster's other half, among all clusters.
              nearsay and KeyBERT choose by the same encoder, so this alone is no proof
  words       of the first ten of the held-out passages by BM25, the name being the query, so many are its own
  label       the name has a word (by its first five letters) of what people called most of the passages
  label_f1    the same, as the mean of precision and recall over the words of both: many words cost precision
  repeats     names with a word that another cluster's name has
  nouns       phrases whose last word WordNet counts as a noun more often than as anything else
              (--wordnet, the folder of Debian's wordnet-base; words that it lacks do not count)

nearsay's weights were chosen on the sets of CHOOSING; those of REPORTING report. Some of these (AG News,
XQuAD's paragraphs, banking77's other intents) were looked at before, under earlier weights and clusters.
XQuAD's paragraphs and the last ten novels helped to choose how fine clusters are (cluster_sets.py).

    python tests/benchmarks/cluster_names.py --data FOLDER --vectors-cache FOLDER [--wordnet FOLDER]
        [--out FILE.json] [--show 20]

Needs BERTopic for its names: pip install 'nearsay[benchmarks]'.
"""

import argparse
import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from cluster_sets import read as read_labelled
from machine import commit, machine
from made_vectors import sha256

from nearsay.data.function_words import function_words
from nearsay.indexer.clusters.clustering import ClusterOptions
from nearsay.indexer.clusters.names import name_clusters, terms_by_cluster
from nearsay.indexer.clusters.partition import partition
from nearsay.indexer.clusters.phrases import PhraseCounter
from nearsay.indexer.neighbours.points import Points
from nearsay.training.sentence.encoder import Encoder

SEED = 1
CHOOSING = (
    "banking77 train, every other intent",
    "samples, 10 subjects",
    "XQuAD questions by article",
    "novels, first 10",
    "WikiText valid by article",
    "ACL abstracts by 6 topics",
)
REPORTING = (
    "banking77 test, the other intents",
    "AG News",
    "XQuAD paragraphs by article",
    "novels, last 10",
    "WikiText test by article",
    "WordNet verbs by 8 files",
)
PACKAGES = ("bertopic", "scikit-learn")
_WORD = re.compile(r"\w+")

Row = dict[str, float | None]
Encode = Callable[[Sequence[str]], np.ndarray]


def read(name: str, data: Path) -> tuple[list[str], list[str]]:
    """The texts, and what people said each is about."""
    if not name.endswith(("intent", "intents")):
        texts, labels = read_labelled(name, data)
        return texts, labels.tolist()
    rows = _tsv(data / "banking77" / ("train.tsv" if " train," in name else "test.tsv"))
    intents = sorted({row["label"] for row in rows})[int(name.endswith("the other intents")) :: 2]
    rows = [row for row in rows if row["label"] in intents]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def _tsv(at: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(at.read_text("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def bertopic_names(texts: Sequence[Sequence[str]], words: int = 4) -> list[str]:
    """The words of BERTopic's default representation: its own c-TF-IDF over scikit-learn's counts."""
    from bertopic.vectorizers import ClassTfidfTransformer
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(stop_words="english")
    counted = counter.fit_transform(" ".join(each) for each in texts)
    weights = ClassTfidfTransformer().fit_transform(counted).toarray()
    terms = counter.get_feature_names_out()
    return [", ".join(terms[np.argsort(-row, kind="stable")[:words]]) for row in weights]


def keybert_names(
    texts: Sequence[Sequence[str]], centres: np.ndarray, encode: Encode, count: int, diversity: float = 0.5
) -> list[str]:
    """KeyBERT's way, a cluster for a document: of the 50 commonest phrases those nearest to the centre."""
    from sklearn.feature_extraction.text import CountVectorizer

    names = []
    for own, centre in zip(texts, centres, strict=True):
        counter = CountVectorizer(ngram_range=(1, 3), stop_words="english", binary=True)
        counted = np.asarray(counter.fit_transform(own).sum(axis=0))[0]
        phrases = counter.get_feature_names_out()[np.argsort(-counted, kind="stable")[:50]].tolist()
        vectors = encode(phrases)
        near, alike = vectors @ centre, vectors @ vectors.T
        chosen = [int(near.argmax())]
        while len(chosen) < min(count, len(phrases)):
            relevance = (1 - diversity) * near - diversity * alike[:, chosen].max(axis=1)
            relevance[chosen] = -np.inf
            chosen.append(int(relevance.argmax()))
        names.append(", ".join(phrases[place] for place in chosen))
    return names


class Words:
    """BM25 over passages (k1 1.2, b .75), lower case, nothing stemmed."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for place, text in enumerate(texts):
            for word, count in Counter(_WORD.findall(text.lower())).items():
                self._postings.setdefault(word, []).append((place, count))
        self._lengths = np.array([len(_WORD.findall(text)) for text in texts])

    def scores(self, query: str) -> np.ndarray:
        found = np.zeros(self._lengths.size)
        for word in sorted(set(_WORD.findall(query.lower())) & self._postings.keys()):
            places, counts = np.array(self._postings[word]).T
            rarity = math.log(1 + (found.size - places.size + 0.5) / (places.size + 0.5))
            room = 1.2 * (0.25 + 0.75 * self._lengths[places] / self._lengths.mean())
            found[places] += rarity * counts * 2.2 / (counts + room)
        return found


def wordnet_nouns(at: Path) -> dict[str, bool]:
    """Each of WordNet's words: whether it counts half as often as a noun or more, by its tagged texts."""
    counts: dict[str, Counter[str]] = {}
    for line in (at / "cntlist.rev").read_text().splitlines():
        key, _, count = line.split()
        word, sense = key.split("%")
        counts.setdefault(word, Counter())["noun" if sense[0] == "1" else "other"] += int(count)
    for part in ("noun", "verb", "adj", "adv"):
        for line in (at / f"index.{part}").read_text().splitlines():
            if not line.startswith(" "):  # a word that no text was tagged with counts a little
                counts.setdefault(line.split()[0], Counter())["noun" if part == "noun" else "other"] += 0.1
    return {word: each["noun"] > 0 and each["noun"] >= each["other"] / 2 for word, each in counts.items()}


def _is_noun(phrase: str, nouns: Mapping[str, bool]) -> bool | None:
    """Whether the last word, or that before "of", is one; None where WordNet does not know it."""
    last = phrase.lower().split(" of ")[0].split()[-1]
    forms = (last, re.sub("ies$", "y", last), re.sub("s$", "", last), re.sub("es$", "", last))
    verbs = (re.sub("(ed|ing)$", "", last), re.sub("(ed|ing)$", "e", last))
    known = next((form for form in forms if form in nouns), None)
    if known is None:
        return False if any(form != last and form in nouns for form in verbs) else None
    return nouns[known]


def _stems(text: str) -> set[str]:
    words = re.findall(r"[^\W\d_]+", text.lower())
    return {word[:5] for word in words if len(word) > 2 and word not in function_words()}


def measured(
    names: Sequence[str],
    called: Sequence[str],
    centres: np.ndarray,
    words: Words,
    owners: np.ndarray,
    encode: Encode,
    nouns: Mapping[str, bool],
) -> Row:
    """The figures of one way to name a set's clusters.

    called:  what people call most passages of each cluster
    centres: of the held-out halves; owners: the cluster of each held-out passage, as `words` has them
    """
    nearest = (encode(names) @ centres.T).argmax(axis=1)
    shares = []
    for place, name in enumerate(names):
        scores = words.scores(name)
        best = np.argsort(-scores, kind="stable")[: min(10, int((owners == place).sum()))]
        shares.append(float(((owners[best] == place) & (scores[best] > 0)).mean()))
    row: Row = {"encoder": float((nearest == np.arange(len(names))).mean()), "words": float(np.mean(shares))}
    stems = [_stems(name) for name in names]
    people = [_stems(label.replace("_", " ")) for label in called]
    both = [len(one & other) for one, other in zip(stems, people, strict=True)]
    sizes = [max(1, len(one) + len(other)) for one, other in zip(stems, people, strict=True)]
    row["label"] = float(np.mean([count > 0 for count in both]))
    row["label_f1"] = float(np.mean([2 * count / size for count, size in zip(both, sizes, strict=True)]))
    in_names = Counter(stem for each in stems for stem in each)
    row["repeats"] = float(np.mean([any(in_names[stem] > 1 for stem in each) for each in stems]))
    heads = [_is_noun(part, nouns) for name in names for part in name.split(", ") if part.split()]
    heads = [each for each in heads if each is not None]
    row["nouns"] = float(np.mean(heads)) if nouns and heads else None
    row["words_a_name"] = float(np.mean([len(name.split()) for name in names]))
    return row


def run(
    name: str, chosen: argparse.Namespace, encode: Encode, nouns: Mapping[str, bool]
) -> dict[str, object]:
    texts, labels = read(name, chosen.data)
    at = chosen.vectors_cache / f"names {name}.npy"
    if not at.exists():
        at.parent.mkdir(parents=True, exist_ok=True)
        np.save(at, encode(texts))
    vectors = np.load(at)
    if len(vectors) != len(texts):
        raise SystemExit(f"{at} holds {len(vectors)} vectors for {len(texts)} texts; remove it")
    points = Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors)
    found = partition(points, ClusterOptions(), seed=SEED).labels
    random = np.random.default_rng(SEED)
    clusters = [random.permutation(np.flatnonzero(found == each)) for each in range(found.max() + 1)]
    clusters = [each for each in clusters if each.size > 1]
    named = [np.sort(each[: -(-each.size // 2)]) for each in clusters]
    held_out = [np.sort(each[-(-each.size // 2) :]) for each in clusters]
    own_texts = [[texts[place] for place in each] for each in named]
    own_centres = _centres(vectors, named)
    counter = PhraseCounter()
    for own in own_texts:
        counter.add(own)
    counted, nothing = counter.counted(), [""] * len(clusters)
    names = {
        "nearsay": name_clusters(counted, nothing, own_centres, encode),
        "nearsay, without the encoder": name_clusters(counted, nothing),
        "nearsay's first three terms": [", ".join(own[:3]) for own in terms_by_cluster(counted)],
        "BERTopic's": bertopic_names(own_texts),
        "KeyBERT's, three phrases": keybert_names(own_texts, own_centres, encode, 3),
        "KeyBERT's, one phrase": keybert_names(own_texts, own_centres, encode, 1),
    }
    words = Words([texts[place] for each in held_out for place in each])
    owners = np.repeat(np.arange(len(held_out)), [each.size for each in held_out])
    called = [Counter(labels[place] for place in each).most_common(1)[0][0] for each in clusters]
    centres = _centres(vectors, held_out)
    rows = {way: measured(each, called, centres, words, owners, encode, nouns) for way, each in names.items()}
    for way, row in rows.items():
        figures = "  ".join(f"{key} {value:.3f}" for key, value in row.items() if value is not None)
        sys.stderr.write(f"{name}: {way:30} {figures}\n")
    for place in np.argsort([-each.size for each in clusters], kind="stable")[: chosen.show]:
        shown = " | ".join([called[place], *(each[place] for each in names.values())])
        sys.stderr.write(f"    {clusters[place].size:5} | {shown}\n")
    return {
        "passages": len(texts),
        "clusters": len(clusters),
        "sha256": sha256(vectors),
        "chose": name in CHOOSING,
        "names": rows,
    }


def _centres(vectors: np.ndarray, clusters: Sequence[np.ndarray]) -> np.ndarray:
    sums = np.array([vectors[each].sum(axis=0) for each in clusters])
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="where the sets lie")
    parser.add_argument("--vectors-cache", type=Path, required=True, help="where the sets' vectors are kept")
    parser.add_argument("--set", action="append", choices=(*CHOOSING, *REPORTING))
    parser.add_argument("--wordnet", type=Path, help="as Debian has it: /usr/share/wordnet")
    parser.add_argument("--show", type=int, default=0, help="clusters of each set whose names are shown")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    encoder, known = Encoder.load(), dict[str, np.ndarray]()

    def encode(texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, encoder.encode(new), strict=True))
        found = np.array([known[text] for text in texts])
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    nouns = wordnet_nouns(chosen.wordnet) if chosen.wordnet else {}
    result = {
        "question": "whether a cluster's name tells which cluster is meant, beside people's labels and peers",
        "commit": commit(),
        "machine": machine() | {"packages": {name: version(name) for name in PACKAGES}},
        "seed": SEED,
        "sets": {name: run(name, chosen, encode, nouns) for name in chosen.set or (*CHOOSING, *REPORTING)},
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
