"""An encoder trained on the judgements' training part, as a candidate of `improve`."""

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from nearsay.data import samples
from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import without_leaks
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.judgements import Judgement, JudgementState
from nearsay.indexer.collection import Collection
from nearsay.indexer.improving import Improvement, TrainedEncoder
from nearsay.indexer.judgements.export import ExportForm, training_rows
from nearsay.indexer.query.export import Sample
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.evaluation.judged.replay import general_sets
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.adaptation.adapt import Adaptation, AdaptationResult, adapt_encoder
from nearsay.training.sentence.adaptation.pseudo_queries import UnlabelledCorpus, draw_pseudo_queries
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet, usual_epochs
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.negatives.mining import mine_negatives
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus
from nearsay.training.sentence.objectives.config import default_objective


def adapt_to_collection(
    collection: Collection,
    out: str | Path,
    *,
    options: Adaptation | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> AdaptationResult:
    """Adapt the collection's encoder to its passages, in the folder `out`; see `adapt_encoder`.

    Its judgements, if any, are measured before and after, and never trained on. The collection is unchanged:
    `rebuild` uses the new encoder. Of more passages than `options.pool`, a sample is used. Raises like
    `adapt_encoder` and `Collection.sample`.
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
    """A random sample of a collection's passages, and the same as a training corpus."""
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
    kept = replace(
        sample,
        numbers=numbers,
        texts=list(corpus.texts),
        untitled=[sample.untitled[place] for place in there],
        vectors=sample.vectors[there],
    )
    return kept, corpus


def queries_of_documents(collection: Collection, count: int) -> tuple[str, ...]:
    """Queries made of titles and sentences of a collection's documents, the same each time.

    Raises like `draw_pseudo_queries` if the documents have no usable ones.
    """
    _, corpus = drawn_corpus(collection, 20 * count, seed=0)
    return tuple(query.text for query in draw_pseudo_queries(corpus, count, seed=0))


def _judged(collection: Collection) -> JudgedSet | None:
    """The collection's judgements as an evaluation set; None if no relevant passage is left."""
    judgements = collection.judgements
    if not any(one.relevant and one.state is JudgementState.CURRENT for one in judgements.list()):
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "judged"
        judgements.export(place, ExportForm.EVALUATION)
        return read_judged_set(place, name=f"judgements of {collection.name}")


_POOL: Final = 20_000  # passages, of a larger collection drawn at random
_MOST_ROWS: Final = 1_000  # of judgements, and of the collection's own pairs: minutes on two cores
_LEAST_ROWS: Final = 64  # of the collection's own pairs
_NEGATIVES: Final = 3  # mined for each judged query
_TOKENS: Final = 128  # of a text in training; the encoder's own limit stays as it is
_SEED: Final = 0


def improve_with_encoder(
    collection: Collection,
    out: str | Path,
    *,
    apply: bool = False,
    watch: Watch | None = None,
    progress: ProgressListener = unheard,
    wait: float | None = None,
) -> Improvement:
    """`Collection.improve` with a candidate more: the live encoder, trained further, in the folder `out`.

    watch: watches the training; progress: watches the embedding with it and the measurements. Both take
           minutes

    It is trained on three sets in turn: judged queries, each with a relevant passage and one that is not, by
    judgement or mined among the nearest; titles, sentences and salient words with their passages; and the
    sample triplets, against forgetting. The fewer rows, the more epochs (`usual_epochs`). Rows with a query
    that is measured on, and rows of the general sets, are left out.
    """
    folder = Path(out).resolve()

    def trained(learn: Sequence[Judgement], measured: Sequence[str]) -> TrainedEncoder:
        _train(collection, folder, learn, measured, watch)
        number = collection.rebuild(str(folder), progress=progress, wait=wait).generation
        return TrainedEncoder(collection.snapshot(number), collection.library.encoder(str(folder)))

    return collection.improve(apply=apply, trained=trained, progress=progress, wait=wait)


def _train(
    collection: Collection,
    out: Path,
    learn: Sequence[Judgement],
    measured: Sequence[str],
    watch: Watch | None,
) -> None:
    sample, corpus = drawn_corpus(collection, _POOL, _SEED)
    judged = _judged_rows(collection.name, learn, sample, corpus)
    pairs = draw_pseudo_queries(corpus, min(max(len(judged), _LEAST_ROWS), _MOST_ROWS), _SEED)
    own = SentenceExamples(
        f"passages of {collection.name}",
        ExampleKind.PAIRS,
        ("query", "passage"),
        tuple((pair.text, corpus.texts[pair.passage]) for pair in pairs),
        None,
    )
    general = read_sentence_examples(samples.sample_file("triplets"))
    held_out = [(query,) for query in measured]
    sets = [without_leaks(one, held_out)[0] for one in (judged, own)]
    sets.append(without_leaks(general, chain.from_iterable(one.held_out() for one in general_sets()))[0])
    options = SentenceTraining(
        epochs=float(usual_epochs(len(judged))), training_length=_TOKENS, seed=_SEED, exact_resume=False
    )
    result = train_sentence_encoder(
        [TrainingSet(one, default_objective(one.kind)) for one in sets if len(one)],
        out,
        base=sample.encoder.source,
        options=options,
        device=collection.library.store.device,
        watch=watch,
    )
    if not result.finished:
        raise BadInputError(f"the training in {out} was stopped. The same call resumes it")


def _judged_rows(
    name: str, learn: Sequence[Judgement], sample: Sample, corpus: UnlabelledCorpus
) -> SentenceExamples:
    """Triplets of a query, a relevant passage and one that is not, by judgement or mined."""
    chosen = sorted(learn, key=lambda one: (one.query, one.document, one.passage))
    pairs = [
        (str(row["query"]), str(row["positive"])) for row in training_rows(chosen, ExportForm.PAIRS).rows
    ]
    rows: list[tuple[str, ...]] = []
    if any(not one.relevant for one in chosen):
        with contextlib.suppress(BadInputError):  # no query has both
            rows += [_texts(row) for row in training_rows(chosen, ExportForm.TRIPLETS).rows]
    known = {(one.query, one.encoded) for one in chosen if one.relevant}
    mined = mine_negatives(
        pairs,
        MiningCorpus.of(corpus.name, corpus.texts, sample.vectors, untitled=sample.untitled),
        sample.encoder,
        MiningConfig(per_anchor=_NEGATIVES, triplets=True, seed=_SEED),
    )
    rows += [row for row in mined.rows if (row[0], row[2]) not in known]
    kept = tuple(dict.fromkeys(_interleaved(rows)))[:_MOST_ROWS]
    columns = ("query", "positive", "negative")
    if kept:
        return SentenceExamples(f"judgements of {name}", ExampleKind.TUPLES, columns, kept, None)
    return SentenceExamples(f"judgements of {name}", ExampleKind.PAIRS, columns[:2], tuple(pairs), None)


def _texts(row: dict[str, object]) -> tuple[str, ...]:
    return tuple(map(str, row.values()))


def _interleaved(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first row of each query, then the second of each, so that truncation drops no query entirely."""
    by_query: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        by_query.setdefault(row[0], []).append(row)
    ranked = [(place, row) for of_it in by_query.values() for place, row in enumerate(of_it)]
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]
