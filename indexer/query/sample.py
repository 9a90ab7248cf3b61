"""Passages drawn from a collection, to be held against the encoder."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["Sample", "drawn_sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Some passages as the library holds them."""

    numbers: list[int]
    texts: list[str]  # what was encoded
    vectors: NDArray[np.float32]  # (n, d), as stored
    encoder: TextEncoder
    snapshot: Snapshot


def drawn_sample(store: Store, snapshot: Snapshot, encoder: TextEncoder, count: int, seed: int) -> Sample:
    """Draw so many at random from the passages that are searched; `encoder` made the snapshot's vectors."""
    living = snapshot.living()
    generator = np.random.default_rng(seed)
    drawn = np.sort(generator.choice(living, size=min(count, living.size), replace=False))
    with store.database.reading() as connection:
        texts = passages.encoded_texts(connection, snapshot.collection.id, drawn.tolist())
    numbers = [number for number in drawn.tolist() if number in texts]
    vectors = snapshot.vectors.rows(snapshot.vectors.positions(np.array(numbers, dtype=np.int64)))
    return Sample(numbers, [texts[number] for number in numbers], vectors, encoder, snapshot)
