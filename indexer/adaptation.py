"""An encoder that learns a collection: what the collection gives to its training."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nearsay.data.chunking import Chunking
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.judgement import JudgementState
from nearsay.indexer.collection import Collection
from nearsay.indexer.judgements.export import ExportForm
from nearsay.indexer.query.sample import Sample
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.watch import Watch
from nearsay.training.sentence.adaptation.adapt import Adaptation, AdaptationResult, adapt_encoder
from nearsay.training.sentence.adaptation.pseudo_queries import UnlabelledCorpus, draw_pseudo_queries

__all__ = ["adapt_to_collection", "drawn_corpus", "queries_of_documents"]


def adapt_to_collection(
    collection: Collection,
    out: str | Path,
    *,
    options: Adaptation | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> AdaptationResult:
    """Fit the collection's encoder to its passages, into the folder `out`; see `adapt_encoder`.

    Its judgements, if any, are measured before and after and never learned from. The collection itself stays
    as it is: `rebuild` takes the new encoder. A larger collection than `options.pool` passages is learned
    from a sample. Raises as `adapt_encoder`, and as `Collection.sample` does.
    """
    options, watch = options or Adaptation(), watch or Watch()
    sample, corpus = drawn_corpus(collection, options.pool, options.seed)
    return adapt_encoder(
        corpus,
        out,
        base=sample.encoder.source,
        vectors=sample.vectors,
        judged=_judged(collection),
        tests=tests,
        options=options,
        device=device,
        watch=watch,
    )


def drawn_corpus(collection: Collection, count: int, seed: int) -> tuple[Sample, UnlabelledCorpus]:
    """Some passages of a collection, drawn at random, and the same as a corpus to learn from."""
    sample = collection.sample(count, seed)
    with collection.library.store.database.reading() as connection:
        rows = passages.read_passages(connection, sample.snapshot.collection.id, sample.numbers)
    there = [place for place, number in enumerate(sample.numbers) if number in rows]
    found = [rows[sample.numbers[place]] for place in there]
    corpus = UnlabelledCorpus(
        f"collection {collection.name}",
        texts=tuple(sample.texts[place] for place in there),
        titles=tuple(row.title for row in found),
        documents=tuple(row.document_id for row in found),
        language=Chunking.parse(sample.snapshot.collection.chunking).language,
    )
    numbers = [sample.numbers[place] for place in there]
    kept = replace(sample, numbers=numbers, texts=list(corpus.texts), vectors=sample.vectors[there])
    return kept, corpus


def queries_of_documents(collection: Collection, count: int) -> tuple[str, ...]:
    """So many queries, the same each time, made from titles and sentences of a collection's documents.

    Raises as `draw_pseudo_queries` for documents that hold nothing to ask.
    """
    _, corpus = drawn_corpus(collection, 20 * count, seed=0)
    return tuple(query.text for query in draw_pseudo_queries(corpus, count, seed=0))


def _judged(collection: Collection) -> JudgedSet | None:
    """The collection's judgements as a set to measure on; None where nothing relevant stands there now."""
    judgements = collection.judgements
    if not any(one.relevant and one.state is JudgementState.CURRENT for one in judgements.list()):
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "judged"
        judgements.export(place, ExportForm.EVALUATION)
        return read_judged_set(place, name=f"judgements of {collection.name}")
