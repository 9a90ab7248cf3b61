"""How close a passage is, in words and as a figure."""

from collections.abc import Sequence

from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.query.hit import Hit

__all__ = ["SCORE_HELP", "in_words", "score_line"]

# Cosines of sentence encoders as the bundled one gives them; another encoder's scale can lie elsewhere.
_STEPS = ((0.75, "very close"), (0.55, "close"), (0.35, "related"))
_REST = "distant"

_NAMED = 3  # words

SCORE_HELP = (
    "Very close: a cosine similarity of 0.75 and more, close: 0.55, related: 0.35, below that distant. "
    "These steps fit the bundled encoder; another's scale can lie elsewhere. Hybrid adds up to about a fifth "
    "to the cosine where a passage has the query's rarest words, and ranks by the sum. By words alone the "
    "score is BM25, which has no upper end and is comparable within one query only."
)


def in_words(cosine: float) -> str:
    """A cosine similarity as a word; see `SCORE_HELP`."""
    return next((word for least, word in _STEPS if cosine >= least), _REST)


def score_line(hit: Hit, mode: SearchMode | None, words: Sequence[str] = ()) -> str:
    """What a hit's score says, and why it stands where it does: close · cosine 0.62 + 0.17 for its words.

    A passage that is distant by meaning and stands here for its words is called by them.

    mode:  how it was searched; None: by likeness to documents
    words: of the query, that stand in the passage
    """
    cosine = hit.scores.dense
    named = ", ".join(f"“{word}”" for word in words[:_NAMED])
    named = f" {named}" + " …" * (len(words) > _NAMED) if named else ""
    if mode is SearchMode.LEXICAL:
        return f"by words · BM25 {hit.score:.1f}"
    if cosine is None:
        return f"by its words{named} · ranked by {hit.score:.2f}"
    added = hit.score - cosine
    if mode is not SearchMode.HYBRID or abs(added) < 0.005:  # else the figures look the same
        return f"{in_words(cosine)} · cosine {cosine:.2f}"
    if added < 0:
        return f"{in_words(cosine)} · cosine {cosine:.2f} · ranked by {hit.score:.2f}"
    if in_words(cosine) == _REST:
        return f"by its words{named} · cosine {cosine:.2f} + {added:.2f} for them"
    return f"{in_words(cosine)} · cosine {cosine:.2f} + {added:.2f} for its words"
