"""All label-free figures of some encoders on one corpus."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.encoded_texts import encoded_texts, unit_rows
from nearsay.training.evaluation.proxies.adjacent_passages import adjacent_passages
from nearsay.training.evaluation.proxies.bm25 import Bm25
from nearsay.training.evaluation.proxies.corpus import UnjudgedCorpus
from nearsay.training.evaluation.proxies.duplicates_found import duplicates_found
from nearsay.training.evaluation.proxies.lexical_agreement import lexical_agreement, lexical_neighbours
from nearsay.training.evaluation.proxies.perturbation import perturbed
from nearsay.training.evaluation.proxies.proxy import Proxy, ProxyFigure
from nearsay.training.evaluation.proxies.title_to_body import body_without_title, title_to_body
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["EncoderPanel", "UnjudgedTexts", "encoder_panel"]

_QUERIES: Final = 1000  # passages whose neighbours are compared with BM25's


@dataclass(frozen=True, slots=True)
class EncoderPanel:
    """One encoder's label-free figures; None where the corpus has nothing to measure one on."""

    encoder: str
    figures: dict[Proxy, ProxyFigure | None]
    truncated: int  # texts that were cut at the length limit


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
            found
            for row in self.queries
            for found in lexical_neighbours(words.scores([self.passages[row]]), np.array([row]))
        ]

    def __len__(self) -> int:
        """Texts that an encoder has to encode."""
        return 2 * len(self.passages) + len(self.bodies) + len(self.titles)


def encoder_panel(
    encoder: TextEncoder, texts: UnjudgedTexts, *, progress: Callable[[int, int], None] | None = None
) -> EncoderPanel:
    """Measure an encoder by all proxies; `progress` is told texts encoded and in all."""
    done = truncated = 0

    def vectors(some: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        nonlocal done, truncated
        begun = done
        found, cut = encoded_texts(
            encoder,
            some,
            kind=kind,
            listener=None if progress is None else lambda so_far: progress(begun + so_far, len(texts)),
        )
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
    return EncoderPanel(encoder.name, figures, truncated)
