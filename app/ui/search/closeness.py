"""How close a passage is, in words and as a figure."""

from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.query.hit import Hit

__all__ = ["SCORE_HELP", "in_words", "score_line"]

# Cosines of sentence encoders as the bundled one gives them; another encoder's scale can lie elsewhere.
_STEPS = ((0.75, "very close"), (0.55, "close"), (0.35, "related"))
_REST = "distant"

SCORE_HELP = (
    "Very close: a cosine similarity of 0.75 and more, close: 0.55, related: 0.35, below that distant. "
    "These steps fit the bundled encoder; another's scale can lie elsewhere. Hybrid ranks by the cosine and "
    "about a fifth more where a passage has the query's five rarest words; by words alone the score is "
    "BM25, which has no upper end and is comparable within one query only."
)


def in_words(cosine: float) -> str:
    """A cosine similarity as a word; see `SCORE_HELP`."""
    return next((word for least, word in _STEPS if cosine >= least), _REST)


def score_line(hit: Hit, mode: SearchMode | None) -> str:
    """What a hit's score says: close · cosine 0.62 · ranked by 0.79 with its words.

    mode: how it was searched; None: by likeness to documents
    """
    cosine = hit.scores.dense
    if mode is SearchMode.LEXICAL:
        return f"by words · BM25 {hit.score:.1f}"
    if cosine is None:
        return f"by words · ranked by {hit.score:.2f}"
    line = f"{in_words(cosine)} · cosine {cosine:.2f}"
    if mode is SearchMode.HYBRID and abs(hit.score - cosine) >= 0.005:  # else the figures look the same
        line += f" · ranked by {hit.score:.2f} with its words"
    return line
