"""Why the hits of a search matched."""

from collections.abc import Sequence

from nearsay.data.errors import BadInputError
from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.explanation import ExplainedPassage, Explanation
from nearsay.indexer.query.hit import Hit
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["explain_hits"]


def explain_hits(
    encoder: TextEncoder, query: str, hits: Sequence[Hit], *, language: str = "en"
) -> list[Explanation]:
    """Say of each hit why it matched the query, in the hits' order.

    encoder:  the one that the hits were found by
    language: ISO 639 code, for finding sentence ends

    It is the cosine similarity that is shared out, whatever the hits were ranked by. Raises BadInputError for
    hits of another encoder.
    """
    for hit in hits:
        if hit.lineage.fingerprint != encoder.fingerprint:
            found_by = f"{hit.lineage.encoder}, generation {hit.lineage.generation}"
            raise BadInputError(
                f"hit {hit.rank} ('{hit.id}') was found by another encoder ({found_by}) than the one that "
                f"answers now ({encoder.name}). Search again"
            )
    passages = [ExplainedPassage(hit.title, hit.text, hit.scores.dense) for hit in hits]
    return explain_passages(encoder, query, passages, language=language)
