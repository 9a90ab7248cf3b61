"""All label-free figures of some encoders on one corpus."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.training.evaluation.judged.bootstrap import interval_of_mean
from nearsay.training.evaluation.proxies.corpus import UnjudgedCorpus
from nearsay.training.evaluation.retrieval import nearest
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows


class Proxy(StrEnum):
    """Questions that a corpus answers without a person's judgement; none is whether a search is good."""

    ADJACENT = "adjacent passages"
    TITLES = "title to body"
    DUPLICATES = "duplicates found again"
    LEXICAL = "agreement with BM25"


_MEASURES: Final = {
    Proxy.ADJACENT: "MRR of the next passage among it and passages of other documents",
    Proxy.TITLES: "MRR@10 of a document for its title",
    Proxy.DUPLICATES: "recall@1 of a passage for its copy with typos, lost words and other case",
    Proxy.LEXICAL: "overlap@10 of a passage's neighbours with those of BM25",
}
_LIMITS: Final = {
    Proxy.ADJACENT: "It shows that topics hold together, not that answers are found: neighbours share names "
    "and style, which an encoder may follow without understanding.",
    Proxy.TITLES: "Titles repeat words of their texts and are written by those who know the answer; what "
    "people ask is worded otherwise, so a high figure promises nothing for their questions.",
    Proxy.DUPLICATES: "It shows robustness against noise, not meaning: an encoder of spelling alone would "
    "do well, and one that maps paraphrases together may lose a little.",
    Proxy.LEXICAL: "It is no quality at all: near 1 the encoder adds nothing to a search by words, near 0 "
    "it looks at something else, for better or worse.",
}


@dataclass(frozen=True, slots=True, eq=False)
class ProxyFigure:
    """One encoder's figure for one proxy."""

    proxy: Proxy
    each: NDArray[np.float64]  # (items,) of which the figure is the mean
    chance: float  # what vectors drawn by chance would reach

    @property
    def figure(self) -> float:
        """The mean over the items, 0 to 1."""
        return float(self.each.mean())


def figure_of(proxy: Proxy, each: list[float], chance: float) -> ProxyFigure | None:
    """Return the figure, or None when the corpus has no item to measure it on."""
    return ProxyFigure(proxy, np.array(each, dtype=np.float64), chance) if each else None


def adjacent_passages(
    vectors: NDArray[np.float32],
    documents: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
    *,
    others: int = 99,
    seed: int = 0,
) -> ProxyFigure | None:
    """Rank each passage's next one among drawn passages of other documents; give the mean of 1 / rank.

    vectors:   (passages, dimension) float32 of unit length, in the order of the text
    documents: (passages,) the number of each one's document, those of one document together
    places:    (passages,) where each one stands in its document: those that do not follow each other, as one
               between is left out, are not ranked; None: all follow each other
    others:    most passages that the next one is ranked among
    A tie counts as a worse rank. None when no passage follows another, or there is only one document.

    Adjacent text as a signal: Logeswaran & Lee 2018, https://arxiv.org/abs/1803.02893
    """
    random = np.random.default_rng(seed)
    each: list[float] = []
    ranked_among = []
    follows = documents[:-1] == documents[1:]
    if places is not None:
        follows &= places[:-1] + 1 == places[1:]
    for row in np.flatnonzero(follows):
        elsewhere = np.flatnonzero(documents != documents[row])
        if not len(elsewhere):
            continue
        drawn = random.choice(elsewhere, min(others, len(elsewhere)), replace=False)
        rank = 1 + int((vectors[drawn] @ vectors[row] >= vectors[row + 1] @ vectors[row]).sum())
        each.append(1 / rank)
        ranked_among.append(len(drawn) + 1)
    chance = float(np.mean([(1 / np.arange(1, size + 1)).sum() / size for size in ranked_among] or [0.0]))
    return figure_of(Proxy.ADJACENT, each, chance)


_WORD = r"(?u)\b\w+\b"


class Bm25:
    """Scores texts by the words that they share with a query; a word is a run of letters and digits.

    score = sum over the query's words of idf · tf / (tf + k1 · (1 - b + b · length / mean length))
    idf = ln(1 + (texts - texts with the word + 0.5) / (texts with the word + 0.5))

    As Lucene has it since version 8. Robertson & Zaragoza 2009, https://doi.org/10.1561/1500000019; Kamphuis
    et al. 2020 on its variants, https://doi.org/10.1007/978-3-030-45442-5_4
    """

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        """`k1`: how soon a repeated word counts no more; `b`: how much long texts are held back, 0 to 1.

        Raises BadInputError when the texts have no words.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        self._words = CountVectorizer(token_pattern=_WORD)
        try:
            counts = self._words.fit_transform(texts).tocoo()
        except ValueError as error:
            raise BadInputError(
                f"{len(texts)} texts hold no words to rank by. Give texts with some"
            ) from error
        lengths = np.bincount(counts.row, weights=counts.data, minlength=len(texts))
        documents = np.bincount(counts.col, minlength=counts.shape[1])
        idf = np.log1p((len(texts) - documents + 0.5) / (documents + 0.5))
        held_back = k1 * (1 - b + b * lengths / lengths.mean())
        counts.data = idf[counts.col] * counts.data / (counts.data + held_back[counts.row])
        self._weights = counts.tocsr().T.tocsr()  # (words, texts)

    def scores(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """Return (queries, texts) scores; repeated words of a query count each time, unknown ones never."""
        return np.asarray((self._words.transform(queries) @ self._weights).toarray(), dtype=np.float64)


def duplicates_found(copies: NDArray[np.float32], passages: NDArray[np.float32]) -> ProxyFigure | None:
    """Return the share of copies whose nearest passage is their own.

    copies, passages: (passages, dimension) float32 of unit length; row by row they belong together
    None for fewer than 2 passages.
    """
    if len(passages) < 2:
        return None
    each = [float(rows[0] == row) for row, rows in enumerate(nearest(copies, passages, depth=1))]
    return figure_of(Proxy.DUPLICATES, each, 1 / len(passages))


_LEXICAL_AGREEMENT_DEPTH: Final = 10


def lexical_neighbours(scores: NDArray[np.float64], row: int) -> NDArray[np.int64]:
    """Return the ten passages with the highest scores, without the query itself.

    scores: (passages,); row: which passage the query is
    Passages without a shared word are no neighbours, so there may be fewer; equal scores by row.
    """
    order = np.argsort(-scores, kind="stable")[: _LEXICAL_AGREEMENT_DEPTH + 1]
    near: NDArray[np.int64] = order[(order != row) & (scores[order] > 0)]
    return near[:_LEXICAL_AGREEMENT_DEPTH]


def lexical_agreement(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], lexical: list[NDArray[np.int64]]
) -> ProxyFigure | None:
    """Return the mean share of BM25's neighbours that are the encoder's neighbours too.

    vectors: (passages, dimension) float32 of unit length; rows: (queries,) the passages that are asked for
    lexical: their neighbours, as `lexical_neighbours` gives them; the encoder's are as many
    None when no query has a lexical neighbour.
    """
    each = []
    chances = []
    for row, theirs, ours in zip(
        rows, lexical, nearest(vectors[rows], vectors, depth=_LEXICAL_AGREEMENT_DEPTH + 1), strict=True
    ):
        if not len(theirs):
            continue
        own = [i for i in ours if i != row][: len(theirs)]
        each.append(len(set(own) & set(theirs.tolist())) / len(theirs))
        chances.append(len(theirs) / max(len(vectors) - 1, 1))
    return figure_of(Proxy.LEXICAL, each, float(np.mean(chances or [0.0])))


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_KINDS: Final = 3  # of a typo: two letters swapped, one lost, one replaced


def perturbed(
    text: str, random: np.random.Generator, *, typos: float = 0.1, drops: float = 0.1, case: float = 0.5
) -> str:
    """Return the text with typos, lost words and perhaps no capitals; white space becomes single spaces.

    Chances: typos, of a word of 3 letters or more; drops, of a word being left out, though the last one that
    is left stays; case, of the whole text losing its capitals
    """
    words = text.split()
    kept = [word for word in words if random.random() >= drops] or words[-1:]
    changed = [
        _mistyped(word, random) if len(word) >= 3 and random.random() < typos else word for word in kept
    ]
    written = " ".join(changed)
    return written.lower() if random.random() < case else written


def _mistyped(word: str, random: np.random.Generator) -> str:
    place = int(random.integers(len(word) - 1))
    kind = int(random.integers(_KINDS))
    if kind == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    new = "" if kind == 1 else _LETTERS[int(random.integers(len(_LETTERS)))]
    return word[:place] + new + word[place + 1 :]


_TITLE_TO_BODY_DEPTH = 10


def title_to_body(
    titles: NDArray[np.float32], bodies: NDArray[np.float32], owners: NDArray[np.int64]
) -> ProxyFigure | None:
    """Return the mean of 1 / rank of each title's own body among all bodies, 0 beyond rank 10.

    titles: (titles, dimension), bodies: (documents, dimension), both float32 of unit length
    owners: (titles,) the row of each title's own body
    None without titles, or with fewer than 2 bodies.
    """
    if not len(titles) or len(bodies) < 2:
        return None
    each = []
    for owner, rows in zip(owners, nearest(titles, bodies, depth=_TITLE_TO_BODY_DEPTH), strict=True):
        places = np.flatnonzero(rows == owner)
        each.append(1 / (1 + int(places[0])) if len(places) else 0.0)
    found = min(_TITLE_TO_BODY_DEPTH, len(bodies))
    return figure_of(Proxy.TITLES, each, float((1 / np.arange(1, found + 1)).sum() / len(bodies)))


def body_without_title(title: str, body: str) -> str:
    """Return the body without the title that it may begin with, by which it would find itself."""
    start = body.lstrip("# \t\r\n")
    return start[len(title) :].lstrip() if start.lower().startswith(title.lower()) else body


_QUERIES: Final = 1000  # passages whose neighbours are compared with BM25's


@dataclass(frozen=True, slots=True)
class ProxyScore(Report):
    """One encoder's figure for one proxy, with what it does not show; None: nothing to measure on."""

    REPORT: ClassVar = "proxy"

    encoder: str
    proxy: Proxy
    measure: str  # what the figure is
    figure: float | None
    interval: tuple[float, float] | None  # at 95 %, over the items
    chance: float | None  # what vectors drawn by chance would reach
    items: int
    does_not_show: str
    truncated: int  # texts that were cut at the encoder's length limit
    seed: int


class UnjudgedTexts:
    """What every encoder is measured on: the same texts, copies and neighbours, whichever it is."""

    def __init__(self, corpus: UnjudgedCorpus, *, seed: int = 0) -> None:
        """Make the copies, and search by words; `seed`: of all that is drawn by chance."""
        random = np.random.default_rng(seed)
        self.seed = seed
        self.passages, self.documents, self.places = corpus.passages()
        self.copies = [perturbed(passage, random) for passage in self.passages]
        bodies = [
            (document.title, body_without_title(document.title, document.body))
            for document in corpus.documents
        ]
        bodies = [(title, body) for title, body in bodies if body.strip()]
        self.bodies = [body for _, body in bodies] if any(title for title, _ in bodies) else []
        self.owners = np.array([row for row, (title, _) in enumerate(bodies) if title], dtype=np.int64)
        self.titles = [bodies[row][0] for row in self.owners]
        drawn = random.choice(len(self.passages), min(_QUERIES, len(self.passages)), replace=False)
        self.queries: NDArray[np.int64] = np.sort(drawn).astype(np.int64)
        words = Bm25(self.passages)
        self.lexical = [
            lexical_neighbours(words.scores([self.passages[row]])[0], row) for row in self.queries.tolist()
        ]

    def __len__(self) -> int:
        """Texts that an encoder has to encode."""
        return 2 * len(self.passages) + len(self.bodies) + len(self.titles)


def encoder_panel(
    encoder: VectorEncoder, texts: UnjudgedTexts, *, progress: Callable[[int, int], None] | None = None
) -> list[ProxyScore]:
    """Measure an encoder by all proxies; `progress` is told texts encoded and in all."""
    done = truncated = 0

    def vectors(some: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        nonlocal done, truncated
        found, cut = encoded_texts(encoder, some, kind=kind, progress=progress, before=done, total=len(texts))
        done += len(some)
        truncated += cut
        return unit_rows(found)

    passages = vectors(texts.passages)
    figures = {
        Proxy.ADJACENT: adjacent_passages(passages, texts.documents, texts.places, seed=texts.seed),
        Proxy.TITLES: title_to_body(
            vectors(texts.titles, TextKind.QUERY), vectors(texts.bodies), texts.owners
        ),
        Proxy.DUPLICATES: duplicates_found(vectors(texts.copies), passages),
        Proxy.LEXICAL: lexical_agreement(passages, texts.queries, texts.lexical),
    }
    return [_score(encoder.name, proxy, found, truncated, texts.seed) for proxy, found in figures.items()]


def _score(encoder: str, proxy: Proxy, found: ProxyFigure | None, truncated: int, seed: int) -> ProxyScore:
    interval = None if found is None else interval_of_mean(found.each, seed=seed)
    return ProxyScore(
        encoder=encoder,
        proxy=proxy,
        measure=_MEASURES[proxy],
        figure=None if found is None else found.figure,
        interval=None if interval is None else (interval.low, interval.high),
        chance=None if found is None else found.chance,
        items=0 if found is None else len(found.each),
        does_not_show=_LIMITS[proxy],
        truncated=truncated,
        seed=seed,
    )
