"""Adapting an encoder to a corpus without labels, and keeping the original when that is not better."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from nearsay.data import samples
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.retrieval_set import RetrievalSet, read_retrieval_set
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.training.evaluation.encoded_texts import unit_rows
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.loop import Evaluation, train
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import processes, require_one_process
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.watch import Watch
from nearsay.training.sentence.adaptation.listwise import (
    AdaptationNetwork,
    AdaptationTask,
    HybridTeacher,
    Lessons,
    StepSizes,
)
from nearsay.training.sentence.adaptation.pseudo_queries import (
    PseudoQueries,
    PseudoQuery,
    UnlabelledCorpus,
    draw_pseudo_queries,
)
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.device import choose_device
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.measuring import MeasuredModel, changed, outcomes
from nearsay.training.sentence.fine_tuning.result import Change, SentenceResult
from nearsay.training.sentence.fine_tuning.sentence_folder import finish_encoder, told_judged
from nearsay.training.sentence.fine_tuning.structure import EncoderStructure, build_encoder
from nearsay.training.sentence.lineage import lineage_of
from nearsay.training.sentence.precision import Precision
from nearsay.training.sentence.refusal import refuse_unsafe
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.weights import combined_sha256, weight_hashes

__all__ = ["Adaptation", "AdaptationResult", "adapt_encoder", "is_better"]

HELD_OUT: Final = "held-out pseudo-queries"
_SHARES: Final = (1.0, 0.5)  # of the trained weights, the rest the original's
_MOST_LOST: Final = 0.01  # that a set may lose; correlations count in points of 100
_CANDIDATES: Final = 5  # passages a held-out pseudo-query that it is measured among


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How an encoder is adapted; BadInputError for what cannot train anything."""

    minutes: float | None = 12.0  # of training; encoding before it and measuring after it are left out
    steps: int | None = None  # instead of minutes
    learning_rate: float = 3e-5  # its highest, after the warm-up; it falls to 0 then
    pool: int = 20_000  # passages that are learned from and ranked, drawn by chance from a larger corpus
    queries: int = 20_000  # pseudo-queries that are drawn
    held_out: int = 200  # pseudo-queries that are only measured on
    words: float = 0.3  # weight of BM25 in the teacher's scores, where the cosine's is 1
    lead: float = 0.05  # of a pseudo-query's own passage over the best of the others, in the teacher's scores
    temperature: float = 0.05  # of the rankings that are compared
    anchor: float = 5.0  # weight of the passages' distance from their original vectors
    replay: float = 5.0  # the same of general texts
    sizes: StepSizes = field(default_factory=StepSizes)
    query_length: int = 64  # tokens of a query in training
    passage_length: int = 160  # tokens of a passage in training
    evaluations: int = 6  # on the held-out pseudo-queries in `steps`; in `minutes` one every 50 steps
    patience: int = 2  # of these without a new best that end the training
    precision: Precision = Precision.AUTO
    seed: int = 0
    exact_resume: bool = True

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.steps is None):
            raise BadInputError("give either a number of steps or a number of minutes to train for")

    def to_json(self) -> dict[str, JsonValue]:
        """Give what decides the run's numbers, for its config.json."""
        told: dict[str, JsonValue] = {
            name: value for name, value in asdict(self).items() if name != "exact_resume"
        }
        return told | {"precision": str(self.precision)}


@dataclass(frozen=True, slots=True)
class AdaptationResult:
    """How an adaptation ended."""

    finished: bool  # False: it was asked to stop, and the same call resumes it
    adapted: bool  # False: no encoder was written, since the original is as good or better
    share: float  # of the trained weights in those that were kept, 0 = the original
    changes: Sequence[Change]  # held-out pseudo-queries first, then judgements, then general sets
    steps: int
    seconds: float  # of training


def adapt_encoder(
    corpus: UnlabelledCorpus,
    out: str | Path,
    *,
    base: str | Path = BUNDLED_NAME,
    vectors: NDArray[np.float32] | None = None,
    judged: JudgedSet | None = None,
    tests: Sequence[JudgedSet] = (),
    options: Adaptation | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> AdaptationResult:
    """Teach an encoder a corpus from the corpus alone, into the folder `out`, or resume the run there.

    The encoder learns to rank the corpus's passages for pseudo-queries as hybrid search does (a listwise
    distillation), and is held to the vectors that it gave before: of the passages, and of general texts.
    Its weights are then averaged with the original's at the share that serves held-out pseudo-queries best.
    The folder becomes an encoder only if `is_better` says so; otherwise it holds `run/result.json` alone.

    vectors: the passages' by `base`, (passages, dimension) of length 1; None: they are encoded
    judged:  the collection's own judgements, of which no query is learned from
    tests:   other sets that must not suffer, besides the samples that come with nearsay
    Raises BadInputError for a corpus that holds too little, NearsayError for a base that cannot be loaded,
    and DiskFullError.

    Pseudo-queries with a stronger teacher's scores: Wang et al. 2022 (GPL), https://arxiv.org/abs/2112.07577;
    averaging with the original: Wortsman et al. 2022 (WiSE-FT), https://arxiv.org/abs/2109.01903
    """
    options, watch = options or Adaptation(), watch or Watch()
    require_one_process("the adaptation of an encoder")
    place = choose_device(device)
    source = find_encoder(base)
    refuse_unsafe(source.folder)
    run = RunFolder(out)
    settings: dict[str, JsonValue] = {
        "task": "adaptation",
        "base": source.source,
        "base_sha256": combined_sha256(weight_hashes(source.folder)),
        "corpus": corpus.name,
        "corpus_sha256": corpus.sha256(),
        "judged": None if judged is None else told_judged(judged),
        **options.to_json(),
    }
    environment = RunEnvironment.here(place, options.precision)
    if run.begin(settings, environment, exact=options.exact_resume):
        watch.report(f"resuming the run in {out}")
    drawn = draw_pseudo_queries(corpus, most=options.queries, held_out=options.held_out, seed=options.seed)
    watch.report(f"pseudo-queries to learn from: {drawn.counted()}; held out: {len(drawn.held_out):,}")
    lessons, original = _lessons(corpus, drawn, vectors, Encoder.load_found(source, device=place), options)
    model = build_encoder(source.folder, EncoderStructure(), device=place, seed=options.seed)
    _without_dropout(model)
    measured = MeasuredModel(source, model)
    network = AdaptationNetwork(
        model, torch.from_numpy(original.passages), torch.from_numpy(original.general), options.temperature
    ).to(place)
    cutting = {
        TextKind.QUERY: measured.cutting_at(options.query_length),
        TextKind.PASSAGE: measured.cutting_at(options.passage_length),
    }
    task = AdaptationTask(
        network,
        cutting,
        measured.prompts,
        lessons,
        options.sizes,
        anchor=options.anchor,
        replay=options.replay,
        seed=options.seed,
    )
    evaluation = _evaluation(measured, drawn.held_out, original.passages, options)
    with processes(place) as joined:
        ended = train(
            task,
            run,
            _optimisation(options),
            joined,
            evaluation=evaluation,
            listener=watch.listener,
            stop=watch.stop,
        )
    if not ended.finished:
        return AdaptationResult(False, False, 0.0, (), ended.steps, ended.seconds)
    watch.report("measuring the original and what was made of it")
    held_out = _held_out_set(corpus, drawn.held_out, lessons.teacher, original.held_out)
    sets = [held_out, *([judged] if judged else []), *_general_sets(), *tests]
    first = MeasuredModel(source, build_encoder(source.folder, EncoderStructure(), device=place, seed=0))
    share, found = _best_average(first, measured, sets, options.precision, place)
    trained = SentenceResult(
        finished=True,
        seconds=ended.seconds,
        steps=ended.steps,
        stopped_early=ended.stopped_early,
        training=ended.metrics,
        changes=found,
    )
    if share > 0:
        learned = f"{counted(len(corpus.texts), 'passage')} of {corpus.name}, {drawn.counted()} as queries"
        finish_encoder(
            run,
            model,
            trained,
            learned=f"adapted without labels to {learned}; {share:g} of the way from its base",
            base=lineage_of(source),
            settings=settings | environment.settings() | {"share": share},
        )
    else:
        run.discard({"adapted": False, "evaluations": [change.to_json() for change in found]})
    return AdaptationResult(True, share > 0, share, found, ended.steps, ended.seconds)


@dataclass(frozen=True, slots=True)
class _Originals:
    """Vectors of length 1 by the encoder before it is adapted, a row a text."""

    passages: NDArray[np.float32]
    general: NDArray[np.float32]
    held_out: NDArray[np.float32]  # the held-out pseudo-queries


def _best_average(
    first: MeasuredModel, trained: MeasuredModel, sets: Sequence[JudgedSet], precision: Precision, device: str
) -> tuple[float, list[Change]]:
    """Put the best average of original and trained weights into `trained`; its share and what it changes.

    The share is 0, and the changes are those of the greatest share, if no average `is_better`.
    """
    before = first.model.state_dict()
    after = {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}
    began = outcomes(first, sets, precision=precision, device=device)
    tried: list[tuple[float, list[Change], dict[str, Tensor]]] = []
    for share in _SHARES:
        averaged = {
            name: torch.lerp(before[name], tensor, share) if tensor.is_floating_point() else tensor
            for name, tensor in after.items()
        }
        trained.model.load_state_dict(averaged)
        now = outcomes(trained, sets, precision=precision, device=device)
        tried.append((share, changed(began, now), averaged))
    better = [one for one in tried if is_better(one[1])]
    if not better:
        return 0.0, tried[0][1]
    share, found, weights = max(better, key=lambda one: one[1][0].after.figure)
    trained.model.load_state_dict(weights)
    return share, found


def is_better(found: Sequence[Change]) -> bool:
    """Say whether an adapted encoder is worth keeping.

    found: of the held-out pseudo-queries first, which must gain more than chance; no other set may lose more
    than .01, a correlation no more than 1 point. The same pseudo-queries end the training and choose the
    share, so that their gain is a little flattered: judgements, if there are any, are not.
    """
    held_out, *others = found
    return held_out.verdict == "better" and all(
        change.gained >= -_MOST_LOST * (100 if change.after.kind is EvaluationKind.STS else 1)
        for change in others
    )


def _held_out_set(
    corpus: UnlabelledCorpus,
    queries: Sequence[PseudoQuery],
    teacher: HybridTeacher,
    vectors: NDArray[np.float32],
) -> RetrievalJudgedSet:
    """Held-out pseudo-queries, each to find its passage among those that hybrid search ranks best for any."""
    scores = teacher.scores(queries, vectors)
    count = min(_CANDIDATES, scores.shape[1] - 1)
    among = np.unique(np.argpartition(-scores, count, axis=1)[:, :count])
    return RetrievalJudgedSet(
        HELD_OUT,
        RetrievalSet(
            HELD_OUT,
            {f"passage {number}": corpus.texts[number] for number in among.tolist()},
            {f"query {number}": query.text for number, query in enumerate(queries)},
            {f"query {number}": {f"passage {query.passage}": 1} for number, query in enumerate(queries)},
        ),
    )


def _general_sets() -> list[JudgedSet]:
    """What an adapted encoder must not forget: the samples' search and their scored pairs."""
    pairs = read_judged_set(samples.sample_file("scored-pairs"), name="general pairs")
    search = RetrievalJudgedSet("general search", read_retrieval_set(samples.folder()))
    return [pairs, search]


def _general_texts() -> list[str]:
    """Texts of no corpus, whose vectors are to stay; those of the general sets are not among them."""
    rows = [read_sentence_examples(samples.sample_file(name)).texts for name in ("nli", "triplets")]
    return list(dict.fromkeys(text for of_file in rows for row in of_file for text in row))


def _lessons(
    corpus: UnlabelledCorpus,
    drawn: PseudoQueries,
    vectors: NDArray[np.float32] | None,
    encoder: Encoder,
    options: Adaptation,
) -> tuple[Lessons, _Originals]:
    """Encode everything once by the original encoder."""

    def encoded(texts: Sequence[str], kind: TextKind) -> NDArray[np.float32]:
        return np.ascontiguousarray(unit_rows(encoder.encode(texts, kind=kind)), dtype=np.float32)

    passages = encoded(corpus.texts, TextKind.PASSAGE) if vectors is None else vectors
    general = _general_texts()
    teacher = HybridTeacher(corpus.texts, passages, weight=options.words, lead=options.lead)
    asked = encoded([query.text for query in drawn.training], TextKind.QUERY)
    lessons = Lessons(corpus.texts, drawn.training, asked, teacher, general)
    held_out = encoded([query.text for query in drawn.held_out], TextKind.QUERY)
    return lessons, _Originals(passages, encoded(general, TextKind.PASSAGE), held_out)


def _evaluation(
    measured: MeasuredModel,
    held_out: Sequence[PseudoQuery],
    passages: NDArray[np.float32],
    options: Adaptation,
) -> Evaluation:
    """Look while it trains how high held-out pseudo-queries rank their passages' original vectors."""
    texts, sources = [query.text for query in held_out], np.array([query.passage for query in held_out])

    def measure() -> Mapping[str, float]:
        scores = unit_rows(measured.encoder().encode(texts, kind=TextKind.QUERY)) @ passages.T
        own = scores[np.arange(len(sources)), sources]
        ranks = 1 + (scores > own[:, None]).sum(axis=1)
        return {"held_out_mrr": float((1 / ranks).mean())}

    every = None if options.steps is None else max(options.steps // options.evaluations, 1)
    return Evaluation(measure, every=every or 50, best="held_out_mrr", first=True, patience=options.patience)


def _optimisation(options: Adaptation) -> Optimisation:
    return Optimisation(
        steps=options.steps,
        minutes=options.minutes,
        learning_rate=options.learning_rate,
        precision=options.precision,
        seed=options.seed,
        compile=False,  # texts of many lengths would be compiled again and again
        checkpoint_minutes=2.0,
    )


def _without_dropout(model: SentenceTransformer) -> None:
    """Turn dropout off: scores and vectors that are to be met exactly are not met through noise."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
