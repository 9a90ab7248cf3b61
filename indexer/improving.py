"""Improving a live search from judgements: candidates, measurements and a recommendation."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.indexer.catalogue import collections, generations, refinements
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.catalogue.judgements import (
    Judgement,
    Part,
    drawn_share,
    in_part,
    judged_queries,
    query_hash,
)
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.judgements.figures import (
    Choices,
    JudgedPart,
    LiveSearch,
    Way,
    log_likelihoods,
    mean_answers,
    median_milliseconds,
)
from nearsay.indexer.query.ranking import weight_of_words
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.indexer.writing.compaction import drop_generation
from nearsay.training.evaluation.judged.bootstrap import Interval, interval_of_mean
from nearsay.training.evaluation.judged.confidence_sequence import sequence_of_mean
from nearsay.training.evaluation.judged.replay import Replayed, replay
from nearsay.training.sentence.query_adapter import (
    STRENGTHS,
    QueryAdapter,
    adapted_leaving_one_out,
    fit_query_adapter,
)
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

KEEP: Final = "keep what you have"
ENCODER: Final = "encoder"
FEWEST: Final = 8  # judged queries of the training part that have a relevant passage
WEIGHTS: Final = (0.0, 0.1, 0.2, 0.4, 0.8)  # of words in the fusion, that are tried
_LEVEL: Final = 0.95
MEASURED: Final = 1_000  # queries of each part, at most; what is fitted is fitted to all
_TIMED: Final = 20  # queries
_HELD_OUT: Final = 0.25  # of the queries to learn from, that an encoder is not trained on


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of searching that could go live. Figures: nDCG@10 of hybrid search, minus the live one's."""

    name: str
    word_weight: float | None  # None: unchanged
    strength: float | None  # of the adapter's penalty; None: no new adapter
    learned: float | None  # difference on queries of the training part that were held out of the fit
    learned_low: float | None  # of its interval at 95 %, see `evidence`
    learned_high: float | None
    tested: float | None  # difference on the test part; None if it has no judgements
    tested_low: float | None  # of its 95 % interval, valid however often you look
    tested_high: float | None
    recall: float | None  # of the index for the changed queries; None: exact search
    milliseconds: float | None  # median time per query, encoding included, in turns with others
    replay: tuple[Replayed, ...]  # general sets; none if they cannot change, or the candidate fails anyway
    verdict: str
    likelihood: float | None = None  # of an adapter alone: log-likelihood gain of the relevant passages
    likelihood_low: float | None = None  # of its 95 % interval, which decides
    likelihood_high: float | None = None


@dataclass(frozen=True, slots=True)
class Improvement(Report):
    """The candidates, and which is recommended."""

    REPORT: ClassVar = "improvement"

    training_queries: int
    test_queries: int
    live: float | None  # nDCG@10 on the training part as it is now; None without judgements
    live_tested: float | None  # on the test part
    candidates: tuple[Candidate, ...]  # the first is KEEP
    recommended: str  # the name of one of them
    applied: bool
    seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedEncoder:
    """A generation of a newly trained encoder, ready to be promoted."""

    snapshot: Snapshot
    encoder: TextEncoder


# Trains on judgements, and on nothing of the queries that it is measured on.
Training = Callable[[Sequence[Judgement], Sequence[str]], TrainedEncoder]


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A candidate before it is measured on the test part."""

    name: str
    word_weight: float | None
    strength: float | None
    adapter: QueryAdapter | None  # fitted to the whole training part; None: what is live
    moved: NDArray[np.float32]  # (queries, d) the training queries, each held out
    each: NDArray[np.float64]  # their nDCG@10
    likelier: NDArray[np.float64] | None = None  # of an adapter alone: their gains in log-likelihood

    @property
    def is_sure(self) -> bool:
        """Whether an adapter alone makes answers likelier beyond chance."""
        return self.likelier is not None and evidence(self.likelier, None).low > 0


def improve(
    store: Store,
    take: Callable[[int | None], Snapshot],
    encoder_of: Callable[[GenerationRow], TextEncoder],
    judgements: Sequence[Judgement],
    locked: Callable[[], AbstractContextManager[Store]],
    *,
    apply: bool = False,
    trained: Training | None = None,
    progress: ProgressListener = unheard,
) -> Improvement:
    """Try a query adapter, a weight of words, and both, and recommend one.

    take:    returns the newest snapshot of a generation; None = the live one
    locked:  takes the writer lock; apply: make the recommended candidate live
    trained: trains an encoder and embeds the collection with it; None = try no encoder
    progress: called while candidates are measured

    An adapter is fitted to the queries of the judgements' training part and the vectors of their relevant
    passages. Its strength and the weight of words are chosen by cross-validation there: each query is moved
    by an adapter that was fitted to the others. Among the strengths whose gain is significant, one that
    preserves the general set (see below) is preferred. The candidate with the largest gain is recommended if
    the gain is significant (see `_row`), if it loses nothing on the test part, and if the index meets its
    recall target. With an adapter or an encoder, dense search on a general set may lose no more than `held`
    allows; a weight of words has no effect there and is not measured. Unjudged passages count as not
    relevant, which favours what is live. With fewer than 8 judged training queries, nothing is tried. At most
    1,000 queries of each part are searched for, chosen by their words; an adapter is fitted to all.

    An encoder is trained on three quarters of the training part; then all gains are compared on the held-out
    quarter. If it is recommended, its generation waits for `promote`; otherwise it is dropped, unless it
    existed before or was promoted meanwhile.
    """
    began, snapshot = time.monotonic(), take(None)
    encoder = encoder_of(snapshot.generation)
    progress(Progress(0, None, "encoding judged queries", "queries"))
    every, every_test, notes = _parts(snapshot, encoder, judgements)
    rows_measured = every.drawn(MEASURED)
    train, test = every.at(rows_measured), every_test.at(every_test.drawn(MEASURED))
    live = LiveSearch(store, snapshot, take, encoder, progress)
    progress(Progress(0, None, "measuring what is live", "queries"))
    base, base_test = (
        live.figures(part, live.adapted(part.vectors), None) if part.judged else None
        for part in (train, test)
    )
    rows = [_kept(train, base_test)]
    ways: list[Way] = [(live, live.adapter, None)]
    chosen: tuple[float, _Trial | None] | None = None  # no trial: the encoder
    if base is not None and len(every.judged) >= FEWEST:
        held_out = _held_out(train)
        choices = live.choices(test, live.answers(test))
        compared = np.array([trained is None or query in held_out.judged for query in train.judged])
        for trial in _trials(live, every, rows_measured):
            row = _measured(live, trial, base, test, base_test, choices)
            rows.append(row)
            ways.append((live, trial.adapter or live.adapter, trial.word_weight))
            gain = float((trial.each - base)[compared].mean())
            if not row.verdict and (chosen is None or gain > chosen[0]):
                chosen = gain, trial
        if trained is not None:
            learn = [one for one in in_part(judgements, Part.TRAIN) if one.query not in held_out.judged]
            with store.database.reading() as connection:
                before = {one.number for one in generations.all_of(connection, snapshot.collection.id)}
            made = trained(learn, [*held_out.judged, *every_test.judged])
            other = LiveSearch(store, made.snapshot, take, made.encoder, progress)
            row, gain = _measured_encoder(live, other, held_out, test, base_test)
            rows.append(row)
            ways.append((other, other.adapter, None))
            asked = counted(len(held_out.judged), "query", "queries")
            notes += (f"gains are compared on the {asked} to learn from that the encoder was not trained on",)
            if not row.verdict and (chosen is None or gain > chosen[0]):
                chosen = gain, None
                notes += (_promotion(made.snapshot),)
            elif made.snapshot.generation.number not in before:
                with locked() as writing:
                    _discard(writing, made.snapshot)
    _, taken = chosen or (0.0, None)
    if apply and base is not None and taken is not None:
        with locked() as writing:
            _apply(writing, snapshot, _refinement(snapshot, every, every_test, base, taken))
    recommended = KEEP if chosen is None else ENCODER if taken is None else taken.name
    spent = median_milliseconds(list(train.judged or test.judged)[:_TIMED], ways)
    return Improvement(
        training_queries=len(every.judged),
        test_queries=len(every_test.judged),
        live=None if base is None else round(float(base.mean()), 4),
        live_tested=None if base_test is None else round(float(base_test.mean()), 4),
        candidates=tuple(
            replace(_with_verdict(row, recommended), milliseconds=each)
            for row, each in zip(rows, spent, strict=True)
        ),
        recommended=recommended,
        applied=apply and taken is not None,
        seconds=round(time.monotonic() - began, 2),
        notes=notes,
    )


def _apply(store: Store, snapshot: Snapshot, new: Refinement) -> None:
    """Make a refinement live; BusyError if the snapshot's generation or refinement is no longer live."""
    collection, measured = snapshot.collection, snapshot.refinement
    with store.database.writing() as connection:
        live = generations.live(connection, collection.id)
        if (
            live is None
            or live.identity != snapshot.generation.identity
            or refinements.live_of(connection, collection.id, live.number, measured) is not measured
        ):
            raise BusyError(f"'{collection.name}' has changed in the meantime. Run the command again")
        refinements.add(connection, collection.id, live.number, new)
        collections.changed(connection, collection.id)


def _discard(store: Store, snapshot: Snapshot) -> None:
    """Drop a ready generation that is not recommended, unless it was promoted meanwhile."""
    with store.database.writing() as connection:
        for row in generations.all_of(connection, snapshot.collection.id):
            if row.identity == snapshot.generation.identity and row.state is GenerationState.READY:
                drop_generation(connection, store, snapshot.collection, row)
                collections.changed(connection, snapshot.collection.id)


def undo(store: Store, snapshot: Snapshot) -> str:
    """Undo the live refinement. Returns what is live now. The caller holds the writer lock.

    Raises BadInputError if there is none.
    """
    name, refined = snapshot.collection.name, snapshot.refinement
    if refined is None:
        raise BadInputError(
            f"queries of '{name}' are not refined. Refine them: nearsay index improve {name} --apply"
        )
    with store.database.writing() as connection:
        refinements.undo(connection, refined.number)
        collections.changed(connection, snapshot.collection.id)
        left = refinements.live_of(connection, snapshot.collection.id, snapshot.generation.number)
    return "queries are not refined" if left is None else left.said


def evidence(gains: NDArray[np.float64], tested: NDArray[np.float64] | None) -> Interval:
    """The 95 % interval of a candidate's gain, by bootstrap over the queries of both parts.

    gains, tested: of the training queries, each held out, and of the test queries, (queries,)
    """
    return interval_of_mean(gains if tested is None else np.concatenate([gains, tested]), level=_LEVEL)


def _parts(
    snapshot: Snapshot, encoder: TextEncoder, judgements: Sequence[Judgement]
) -> tuple[JudgedPart, JudgedPart, tuple[str, ...]]:
    """The judged queries to learn from and to measure on, each with a relevant passage, and notes.

    A query that the live refinement or the encoder was trained on is never measured, whichever part it is in.
    """
    refined = snapshot.refinement
    learned = set() if refined is None else set(refined.report.get("learned_from", ()))
    known, left_out = LearnedTexts.of(snapshot.generation.encoder.source), 0
    found = []
    for part in (Part.TRAIN, Part.TEST):
        kept = judged_queries(judgements, part)
        if part is Part.TEST:
            every = len(kept)
            kept = {
                query: of_it
                for query, of_it in kept.items()
                if query_hash(query) not in learned and not known.has(query)
            }
            left_out = every - len(kept)
        vectors = np.zeros((0, encoder.dimension), dtype=np.float32)
        if kept:
            vectors = unit_length(encoder.encode(list(kept), kind=TextKind.QUERY))
        found.append(JudgedPart(kept, vectors))
    train, test = found
    notes = []
    if len(train.judged) < FEWEST:
        name, there = snapshot.collection.name, len(train.judged)
        notes.append(
            f"{counted(there, 'judged query', 'judged queries')} of '{name}' to learn from "
            f"{'has' if there == 1 else 'have'} a relevant passage, and from fewer than {FEWEST} nothing is "
            f"learned. Judge more: nearsay judgements next {name}"
        )
    if any(len(part.judged) > MEASURED for part in found):
        notes.append(f"of each part at most {MEASURED:,} queries are measured on, which their words choose")
    if left_out:
        notes.append(
            f"{counted(left_out, 'query', 'queries')} of the test part left out that were learned from"
        )
    if not test.judged:
        notes.append("no judged query of the test part has a relevant passage: nothing is measured there")
    return train, test, tuple(notes)


def _trials(live: LiveSearch, every: JudgedPart, measured: Sequence[int]) -> list[_Trial]:
    """The best adapter, the best weight of words, and the best of both, on the training part.

    every: the whole part, to which adapters are fitted; measured: indexes of the queries to search for
    """
    answers = live.answers(every)
    targets, train = mean_answers(every.vectors, answers), every.at(measured)
    choices, plain = live.choices(train, [answers[at] for at in measured]), live.adapted(train.vectors)
    usual = log_likelihoods(choices, plain)
    weights = [weight for weight in WEIGHTS if weight != weight_of_words(live.snapshot)]
    steps = len(STRENGTHS) + 2 * len(weights)
    adapters: list[_Trial] = []
    for done, strength in enumerate(STRENGTHS):
        live.progress(Progress(done, steps, "measuring", "candidates"))
        adapter = fit_query_adapter(every.vectors, targets, strength)
        moved = adapted_leaving_one_out(every.vectors, targets, strength)[measured]
        each, likelier = live.figures(train, moved, None), log_likelihoods(choices, moved) - usual
        adapters.append(_Trial("query adapter", None, strength, adapter, moved, each, likelier))
    adapters.sort(key=lambda one: (one.is_sure, one.each.mean()), reverse=True)
    sure = (one for one in adapters if one.is_sure)
    best = next((one for one in sure if all(set_.held for set_ in live.general(one.adapter))), adapters[0])
    kinds = (
        replace(best, name="weight of words", strength=None, adapter=None, moved=plain, likelier=None),
        replace(best, name="adapter and weight", likelier=None),
    )
    found = [best]
    for at, kind in enumerate(kinds):
        live.progress(Progress(len(STRENGTHS) + at * len(weights), steps, "measuring", "candidates"))
        tried = [
            replace(kind, word_weight=weight, each=live.figures(train, kind.moved, weight))
            for weight in weights
        ]
        found.append(max(tried, key=lambda one: one.each.mean()))
    return found


def _kept(train: JudgedPart, base_test: NDArray[np.float64] | None) -> Candidate:
    """The row of the present state."""
    zero = 0.0 if train.judged else None
    nothing = None if base_test is None else 0.0
    return Candidate(KEEP, None, None, zero, zero, zero, nothing, nothing, nothing, None, None, (), "")


def _measured(
    live: LiveSearch,
    trial: _Trial,
    base: NDArray[np.float64],
    test: JudgedPart,
    base_test: NDArray[np.float64] | None,
    test_choices: Sequence[Choices],
) -> Candidate:
    """The row of an adapter or a weight; its verdict says why to reject it, "" if nothing does."""
    each: NDArray[np.float64] | None = None
    recall: float | None = None
    deciding = None
    if base_test is not None:
        moved = (trial.adapter or live.adapted)(test.vectors)
        each, recall = live.figures(test, moved, trial.word_weight) - base_test, live.recall(moved)
        if trial.likelier is not None:
            usual = log_likelihoods(test_choices, live.adapted(test.vectors))
            deciding = log_likelihoods(test_choices, moved) - usual
    likelier = None if trial.likelier is None else (trial.likelier, deciding)
    general = partial(live.general, trial.adapter)
    row = _row(trial.name, trial.each - base, each, recall, live.snapshot, general, likelier)
    return replace(row, word_weight=trial.word_weight, strength=trial.strength)


def _measured_encoder(
    live: LiveSearch,
    other: LiveSearch,
    held_out: JudgedPart,
    test: JudgedPart,
    base_test: NDArray[np.float64] | None,
) -> tuple[Candidate, float]:
    """The row of an encoder, as `_measured`, and its gain on the queries that it was not trained on."""

    def figures(part: JudgedPart) -> NDArray[np.float64]:
        vectors = unit_length(other.encoder.encode(list(part.judged), kind=TextKind.QUERY))
        return other.figures(part, other.adapted(vectors), None)

    gains = figures(held_out) - live.figures(held_out, live.adapted(held_out.vectors), None)
    each: NDArray[np.float64] | None = None
    recall: float | None = None
    if base_test is not None:
        each = figures(test) - base_test
        recall = other.recall(unit_length(other.encoder.encode(list(test.judged), kind=TextKind.QUERY)))
    general = partial(replay, live.remembering, other.encoder, None, live.replayed)
    row = _row(ENCODER, gains, each, recall, other.snapshot, general)
    return row, float(gains.mean())


def _row(
    name: str,
    gains: NDArray[np.float64],
    each: NDArray[np.float64] | None,
    recall: float | None,
    snapshot: Snapshot,
    general: Callable[[], tuple[Replayed, ...]],
    likelier: tuple[NDArray[np.float64], NDArray[np.float64] | None] | None = None,
) -> Candidate:
    """A candidate's row.

    gains:    nDCG@10 of held-out queries minus that of the live search, (queries,); each: of the test part
    general:  measures it on general sets, only if nothing else rejects it
    likelier: gains in log-likelihood of both; they decide instead of nDCG@10 whether the gain is significant
              and whether the test part loses
    """
    learned = evidence(gains, each if likelier is None else None)
    deciding, judged = (learned, each) if likelier is None else (evidence(likelier[0], None), likelier[1])
    tested = None if each is None else float(each.mean())
    interval = Interval(-1.0, 1.0) if each is None else sequence_of_mean(each, level=_LEVEL, sparse=True)
    contract = snapshot.plan.contract
    verdict = ""
    replayed: tuple[Replayed, ...] = ()
    if deciding.low <= 0 or gains.mean() <= 0:
        verdict = "no significant gain"
    elif judged is not None and judged.mean() < 0:
        verdict = "loses on the test part"
    elif recall is not None and recall < contract.recall:
        verdict = f"the index finds {recall:.3f} of the nearest, {contract} is promised"
    else:
        replayed = general()
        verdict = "; ".join(f"loses: {one}" for one in replayed if not one.held)
    return Candidate(
        name=name,
        word_weight=None,
        strength=None,
        learned=round(float(gains.mean()), 4),
        learned_low=round(learned.low, 4),
        learned_high=round(learned.high, 4),
        tested=None if tested is None else round(tested, 4),
        tested_low=None if tested is None else round(interval.low, 4),
        tested_high=None if tested is None else round(interval.high, 4),
        recall=None if recall is None else round(recall, 4),
        milliseconds=None,
        replay=replayed,
        verdict=verdict,
        likelihood=None if likelier is None else round(float(likelier[0].mean()), 4),
        likelihood_low=None if likelier is None else round(deciding.low, 4),
        likelihood_high=None if likelier is None else round(deciding.high, 4),
    )


def _held_out(train: JudgedPart) -> JudgedPart:
    """A quarter of the training queries, chosen by their words, that no encoder is trained on."""
    queries = list(train.judged)
    places = [at for at, query in enumerate(queries) if drawn_share(f"held out {query}") < _HELD_OUT]
    return train.at(places or [min(range(len(queries)), key=queries.__getitem__)])


def _promotion(snapshot: Snapshot) -> str:
    name, number = snapshot.collection.name, snapshot.generation.number
    return (
        f"the encoder's generation {number} is ready. Let it go through the gate: nearsay index promote "
        f"{name} --generation {number}"
    )


def _with_verdict(row: Candidate, recommended: str) -> Candidate:
    if row.name == recommended:
        return replace(row, verdict="recommended")
    return row if row.verdict or row.name == KEEP else replace(row, verdict="gains less")


def _refinement(
    snapshot: Snapshot, train: JudgedPart, test: JudgedPart, base: NDArray[np.float64], trial: _Trial
) -> Refinement:
    """The refinement to make live, with its origin; no test query is ever among its training queries."""
    learned = [query_hash(query) for query in train.judged]
    if set(learned) & {query_hash(query) for query in test.judged}:
        raise ValueError("a query to measure on is among those to learn from")
    before, adapter = snapshot.refinement, trial.adapter
    if adapter is None and before is not None:  # the weight alone is new
        adapter = before.adapter
        learned = sorted({*learned, *before.report.get("learned_from", ())})
    judged = sum(map(len, train.judged.values()))
    said = (
        f"queries refined ({trial.name}) from {counted(judged, 'judgement')} of "
        f"{counted(len(learned), 'query', 'queries')}, none of the {len(test.judged)} judged test queries"
    )
    report: dict[str, Any] = {
        "said": said,
        "name": trial.name,
        "strength": trial.strength,
        "word_weight": trial.word_weight,
        "gain_on_training_part": round(float((trial.each - base).mean()), 4),
        "learned_from": learned,
    }
    weight = weight_of_words(snapshot) if trial.word_weight is None else trial.word_weight
    return Refinement(0, adapter, weight, report, "")
