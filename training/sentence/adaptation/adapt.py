"""Fitting an encoder to a corpus without labels, and keeping the original when that is not better."""

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import as_json
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.training.encoder.hardware import Precision, choose_device
from nearsay.training.encoder.weights import combined_sha256
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import JudgedSet, evaluate_judged_set
from nearsay.training.evaluation.judged.replay import general_sets, held
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.adaptation.pseudo_queries import (
    PseudoQuery,
    UnlabelledCorpus,
    draw_pseudo_queries,
)
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.compression.derived_folder import append_layer, open_model
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.measuring import changed
from nearsay.training.sentence.fine_tuning.sentence_folder import finish_encoder, told_judged
from nearsay.training.sentence.fine_tuning.settings import SentenceResult
from nearsay.training.sentence.refusal import checked_weights
from nearsay.training.sentence.remembering import Remembering
from nearsay.training.sentence.source import find_encoder, lineage_of
from nearsay.training.sentence.text_encoder import TextKind, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

HELD_OUT: Final = "held-out pseudo-queries"
_CANDIDATES: Final = 5  # nearest passages a held-out pseudo-query, by either encoder, that it is among
_END: Final = re.compile(r"[.!?…](?=\s|$)|[。！？]")  # of a sentence


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How an encoder is adapted."""

    power: float = (
        0.15  # of the corpus's inverse covariance: 0 leaves the vectors as they are, 1 whitens them
    )
    pool: int = 20_000  # passages to learn from, drawn at random from a larger corpus
    held_out: int = 400  # pseudo-queries to measure on
    several_sentences: float = 0.5  # minimum share of passages with several sentences, or a title
    precision: Precision = Precision.AUTO
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.power <= 1.0:
            raise BadInputError(f"power is {self.power:g}. Give more than 0, at most 1")


@dataclass(frozen=True, slots=True)
class AdaptationResult:
    """The result of an adaptation."""

    adapted: bool  # False: no encoder was written, because it was not better than the original
    changes: Sequence[JudgedChange]  # held-out pseudo-queries first, then judgements, then general sets
    seconds: float  # total time


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
    """Adapt an encoder to a corpus without labels, into the folder `out`.

    A linear layer is appended that weakens directions in which all passages differ, and which therefore
    distinguish little (see `partial_whitening`). Titles, sentences and salient words of passages are used as
    queries, before and after. The folder becomes an encoder only if `is_better` says so; otherwise it
    contains only `run/result.json`.

    vectors: the passages' vectors by `base`, (passages, dimension) of unit length; None: they are encoded
    judged:  the collection's own judgements, which are only measured on
    tests:   other sets that must not get worse, besides the sample sets

    Raises BadInputError for a corpus that is too small, or of single sentences without titles (on two of four
    such collections the adapted encoder found less), NearsayError for a base that cannot be loaded, and
    DiskFullError.
    """
    options, watch = options or Adaptation(), watch or Watch()
    began = time.monotonic()
    place = choose_device(device)
    source = find_encoder(base)
    _refuse_single_sentences(corpus, options.several_sentences)
    settings: dict[str, JsonValue] = {
        "task": "adaptation",
        "base": source.source,
        "base_sha256": combined_sha256(checked_weights(source)),
        "corpus": corpus.name,
        "corpus_sha256": corpus.sha256(),
        "judged": None if judged is None else told_judged(judged),
        **asdict(options),
    }
    environment = RunEnvironment.here(place, options.precision)
    with RunFolder(out) as run:
        run.begin(settings, environment, exact=False)
        queries = draw_pseudo_queries(corpus, options.held_out, options.seed)
        watch.report(f"pseudo-queries to measure on: {len(queries):,}")
        encoder = Encoder.load_found(source, device=place, precision=options.precision)
        if vectors is None:
            vectors = unit_rows(encoder.encode(corpus.texts, kind=TextKind.PASSAGE))
        layer = partial_whitening(vectors, options.power)
        asked = unit_rows(encoder.encode([query.text for query in queries], kind=TextKind.QUERY))
        fitted = unit_rows(asked @ layer) @ unit_rows(vectors @ layer).T
        held_out = _held_out_set(corpus, queries, (asked @ vectors.T, fitted))
        sets = [held_out, *([judged] if judged else []), *general_sets(), *tests]
        watch.report("measuring the original and what was made of it")
        known = {TextKind.PASSAGE: dict(zip(corpus.texts, vectors, strict=True))}
        first = Remembering(encoder, known)
        before = [evaluate_judged_set(first, one) for one in sets]
        found = changed(before, [evaluate_judged_set(_Fitted(first, layer), one) for one in sets])
        better, seconds = is_better(found), time.monotonic() - began
        if better:
            _, model = open_model(base)
            append_layer(model, layer)
            finish_encoder(
                run,
                model,
                SentenceResult(finished=True, seconds=seconds, changes=found),
                learned=f"fitted without labels to {counted(len(corpus.texts), 'passage')} of {corpus.name}",
                base=lineage_of(source),
                settings=settings | environment.settings(),
                texts=LearnedTexts.of(source.folder.path, source.name),
            )
        else:
            run.discard({"adapted": False, "evaluations": [as_json(change) for change in found]})
    return AdaptationResult(better, found, seconds)


def partial_whitening(vectors: NDArray[np.float32], power: float) -> NDArray[np.float32]:
    """The symmetric matrix (d, d) to multiply vectors with: covariance ** (-power / 2).

    vectors: (n, d) of unit length, of a corpus; not centred

    Directions in which passages differ much, such as common topics, then count less, those in which few
    differ count more. The covariance is estimated by shrinkage (Ledoit & Wolf 2004), valid for fewer passages
    than dimensions, https://doi.org/10.1016/S0047-259X(03)00096-4. Full whitening of sentence vectors (power
    1): Su et al. 2021, https://arxiv.org/abs/2103.15316
    """
    from sklearn.covariance import ledoit_wolf

    covariance, _ = ledoit_wolf(vectors.astype(np.float64))
    values, directions = np.linalg.eigh(covariance)
    scales = (values / values.mean()) ** (-power / 2)
    found: NDArray[np.float32] = ((directions * scales) @ directions.T).astype(np.float32)
    return found


class _Fitted(Remembering):
    """The same encoder with the layer behind it."""

    def __init__(self, first: Remembering, layer: NDArray[np.float32]) -> None:
        super().__init__(first)
        self._layer = layer

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        return unit_rows(encoded_texts(self._encoder, texts, kind=kind)[0] @ self._layer)


def _refuse_single_sentences(corpus: UnlabelledCorpus, share: float) -> None:
    """BadInputError unless so many passages have a title or more than one sentence."""
    long = np.mean(
        [
            bool(title.strip()) or len(_END.findall(text.strip())) > 1
            for title, text in zip(corpus.titles, corpus.texts, strict=True)
        ]
    )
    if long < share:
        raise BadInputError(
            f"{1 - long:.0%} of the passages of {corpus.name} are single sentences without a title. An "
            "encoder is fitted to passages that say several things: train it on pairs, with nearsay train "
            "sentence"
        )


def is_better(found: Sequence[JudgedChange]) -> bool:
    """Whether an adapted encoder is worth keeping.

    found: the held-out pseudo-queries first, whose gain must be significant; no other set may lose more than
           .01, a correlation no more than 1 point
    """
    held_out, *others = found
    return held_out.verdict == "better" and all(held(change.kind, change.gained) for change in others)


def _held_out_set(
    corpus: UnlabelledCorpus, queries: Sequence[PseudoQuery], cosines: Sequence[NDArray[np.float32]]
) -> RetrievalJudgedSet:
    """Held-out pseudo-queries, each to find its passage among those that lie nearest to any of them.

    cosines: (queries, passages) each, by the original and by the fitted encoder: among passages that lie
        near by the one alone the other has the easier task
    """
    count = min(_CANDIDATES, len(corpus.texts))
    nearest = [np.argpartition(-one, count - 1, axis=1)[:, :count] for one in cosines]
    among = np.union1d(np.concatenate(nearest), [query.passage for query in queries])
    return RetrievalJudgedSet(
        HELD_OUT,
        RetrievalSet(
            HELD_OUT,
            {f"passage {number}": corpus.texts[number] for number in among.tolist()},
            {f"query {number}": query.text for number, query in enumerate(queries)},
            {f"query {number}": {f"passage {query.passage}": 1} for number, query in enumerate(queries)},
        ),
    )
