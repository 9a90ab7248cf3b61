"""Training a cross-encoder: from sets of examples to a folder that scores pairs."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.data.sentence_examples.conversion import as_tuples
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.folder import EncoderFolder, position_limit
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.weights import require_complete, stored_tensors, take_pairs
from nearsay.training.evaluation.judged.judged_set import JudgedSet, pairwise
from nearsay.training.run.training_progress import StoppedError, Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.cross_encoder.losses import NEGATIVES, CrossLoss, usual_loss
from nearsay.training.sentence.cross_encoder.pair_task import PairNetwork, PairRows, PairTask
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.measuring import (
    Measured,
    changed,
    dev_figure,
    outcomes,
)
from nearsay.training.sentence.fine_tuning.one_training import OneTraining, begun_training
from nearsay.training.sentence.fine_tuning.preparation import (
    require_batches,
    require_guide,
    require_rows,
    scored_by,
)
from nearsay.training.sentence.fine_tuning.sentence_folder import (
    LIMIT,
    ModelText,
    finish_encoder,
    guide_sha256,
    learned_by,
)
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, SentenceTraining
from nearsay.training.sentence.loading import require_seeing_cls, take_plain_text
from nearsay.training.sentence.negatives.cross_encoder import (
    CrossEncoderJudge,
    PairTokens,
    load_cross_encoder,
    pad_without_effect,
    score_in_float32,
)
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import names_code, refuse_unsafe
from nearsay.training.sentence.source import EncoderSource, lineage_of

_OF_ENCODERS: Final = ("training_length", "lora_rank", "lora_alpha", "lora_targets")
_LONGEST: Final = 512  # tokens of a pair, where neither the base nor the caller says less
_TEXT: Final = ModelText(
    what="cross-encoder",
    summary="it reads two texts together and gives a score from 0 to 1; higher answers better.",
    tags=("sentence-transformers", "cross-encoder", "text-ranking", "nearsay"),
    usage="""
from sentence_transformers import CrossEncoder

scores = CrossEncoder("{name}").predict([("Where do cats sleep?", "The cat sleeps on the mat.")])
""",
    limits=(
        "Its scores order one query's passages. Trained by ranking or margin-mse they are no probabilities.",
        LIMIT,
    ),
)


@dataclass(frozen=True, slots=True)
class CrossEncoderSet:
    """One set of examples with its loss."""

    examples: SentenceExamples
    loss: CrossLoss | None = None  # None: the default for the kind of data
    negatives: int = NEGATIVES  # from the batch, for each pair without negatives
    guide: str | None = (
        None  # a cross-encoder or an encoder that scores the passages, for a loss that learns scores
    )

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise BadInputError(f"the number of negatives is {self.negatives}; give 1 or more")


def train_cross_encoder(
    sets: Sequence[CrossEncoderSet],
    out: str | Path,
    *,
    base: str | Path = BUNDLED_NAME,
    length: int | None = None,
    options: SentenceTraining | None = None,
    dev: JudgedSet | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> SentenceResult:
    """Train a cross-encoder into the folder `out`, or resume the run there.

    base:   a BERT or an encoder, whose transformer gets a new head, or a cross-encoder
    length: maximum tokens of a pair, with special ones; None: as in the base, at most 512
    dev:    a set for reranking, pairs, triplets or sts; measured during the training, the best weights are
            kept
    tests:  measured before and after. "Before" is the base, for an encoder by its cosine

    Started by torchrun, the processes divide every batch. Raises like `train_sentence_encoder`.

    Nogueira & Cho 2019, https://arxiv.org/abs/1901.04085
    """
    with begun_training(out, base, options, dev, tests, device=device, watch=watch) as one:
        if unused := [name for name in _OF_ENCODERS if getattr(one.chosen, name) is not None]:
            raise BadInputError(
                f"a cross-encoder is trained whole and at its length, and has no {', '.join(unused)}. Leave "
                f"{'it' if len(unused) == 1 else 'them'} out"
            )
        return _train(one, sets, length)


def _train(call: OneTraining, given: Sequence[CrossEncoderSet], length: int | None) -> SentenceResult:
    source, watch, held_out, place = call.source, call.watch, call.held_out, call.joined.device
    for judged in held_out:
        pairwise(judged, call.run.out.name)
    kept = call.without_leaks([one.examples for one in given])
    sets = [
        _prepared(dataclasses.replace(one, examples=examples))
        for one, examples in zip(given, kept, strict=True)
        if examples is not None
    ]
    for one in sets:
        if one.examples.kind is ExampleKind.PAIRS:
            require_batches(one.examples, call.chosen.batch, "a cross-encoder")
    learned = [one.examples for one in sets]
    refuse_unsafe(source.folder)
    model = _build(source.folder, length, device=place, seed=call.chosen.seed)
    call.begin("cross-encoder", learned, {"sets": _told(sets), "length": model.max_seq_length})
    precision = call.chosen.precision
    before = []
    measured = CrossEncoderJudge(call.run.out.resolve().name, model)
    try:
        if held_out and call.joined.leads:
            watch.report(f"measuring {source.name}")
            base = _base(source, place, precision)
            stop = watch.stop if call.joined.count == 1 else None  # the others wait for this one
            before = outcomes(base, held_out, precision=precision, device=place, stop=stop)
        task = _task(call, sets, model, measured.name)
    except StoppedError:
        return SentenceResult(finished=False, seconds=0.0)
    # A head drawn by chance is nothing to keep.
    result = call.train(task, task.steps_per_epoch, measured, first=source.folder.is_cross_encoder)
    if not result.finished or not result.leads:
        return result
    if call.tests:
        watch.report("measuring the cross-encoder")
    try:
        with call.measuring():
            after = outcomes(measured, call.tests, precision=precision, device=place, stop=watch.stop)
    except StoppedError:
        return dataclasses.replace(result, finished=False)
    result = dataclasses.replace(
        result,
        base_dev={} if call.dev is None else dev_figure(before[0]),
        changes=changed(before[len(held_out) - len(call.tests) :], after),
    )
    finish_encoder(
        call.run,
        model,
        result,
        learned=", ".join(learned_by(one.examples, one.loss) for one in sets),
        base=lineage_of(source),
        settings=call.settings,
        texts=call.texts_learned(learned, [one.guide for one in sets]),
        text=_TEXT,
    )
    return result


def _prepared(given: CrossEncoderSet) -> PairRows:
    """The set as its loss learns from it; BadInputError when that cannot be."""
    examples = given.examples
    if examples.kind is ExampleKind.NLI:
        examples = as_tuples(examples)
    scored = examples.scores is not None or given.guide is not None
    loss = given.loss or usual_loss(examples.kind, scored=scored)
    loss.require(examples.kind)
    require_rows(examples, "a cross-encoder", compares_labels=True)
    learns_scores = loss.row.scored and examples.kind is ExampleKind.TUPLES
    require_guide(f"loss {loss}", "scores" if learns_scores else "", examples, given.guide)
    return PairRows(examples, loss, given.negatives, given.guide)


def sets_told(sets: Sequence[CrossEncoderSet]) -> list[JsonValue]:
    """What several seeds record about their sets, as each training prepares them."""
    return _told([_prepared(one) for one in sets])


def _told(sets: Sequence[PairRows]) -> list[JsonValue]:
    """Return the sets as a run's config.json tells them."""
    return [
        {
            "name": one.examples.name,
            "kind": str(one.examples.kind),
            "rows": len(one.examples),
            "sha256": one.examples.sha256,
            "loss": str(one.loss),
            "negatives": one.negatives if one.examples.kind is ExampleKind.PAIRS else None,
            "guide": one.guide,
            "guide_sha256": guide_sha256(one.guide),
        }
        for one in sets
    ]


def _base(source: EncoderSource, device: str, precision: Precision) -> Measured:
    """What a run began with: an encoder by the cosine of its vectors, or a cross-encoder."""
    if source.folder.is_cross_encoder:
        return CrossEncoderJudge(source.name, load_cross_encoder(source.folder, device))
    return Encoder.load_found(source, device=device, precision=precision)


def _build(folder: EncoderFolder, length: int | None, *, device: str, seed: int) -> CrossEncoder:
    """Load a cross-encoder, or put a new head of one score on the transformer of a BERT or an encoder."""
    if folder.is_cross_encoder:
        model = load_cross_encoder(folder, device)
        take_plain_text(cast("Transformer", model[0]), folder)  # pairs are tokenized as they are
    else:
        model = _with_new_head(folder, device, seed)
    model.activation_fn = torch.nn.Sigmoid()
    positions = (position_limit(model.config) if model.config is not None else None) or _LONGEST
    special = model.tokenizer.num_special_tokens_to_add(pair=True)
    if length is not None and not special + 2 <= length <= positions:
        raise BadInputError(
            f"the length is {length} tokens, and a pair takes {special + 2} at least and in {folder.path} "
            f"{positions} at most, {special} special ones included. Give another length"
        )
    model.max_seq_length = length or min(positions, model.max_seq_length or _LONGEST, _LONGEST)
    return model


def _with_new_head(folder: EncoderFolder, device: str, seed: int) -> CrossEncoder:
    home = folder.transformer_folder()
    try:
        with quiet_libraries(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            transformer = Transformer(
                str(home),
                transformer_task="sequence-classification",
                model_kwargs={
                    "dtype": torch.float32,
                    "use_safetensors": True,
                    "local_files_only": True,
                    "trust_remote_code": False,
                },
                processor_kwargs={"local_files_only": True, "trust_remote_code": False},
                config_kwargs={"num_labels": 1, "local_files_only": True, "trust_remote_code": False},
            )
            model: CrossEncoder = CrossEncoder(modules=[transformer], device=device)
    except Exception as error:
        raise NearsayError(
            f"no cross-encoder can be made of {folder.path} ({first_line(error)}). "
            "Name the folder of a BERT, an encoder on one, or a cross-encoder"
        ) from error
    require_seeing_cls(transformer, folder)
    whole = transformer.auto_model
    base = getattr(whole, whole.base_model_prefix)
    if hasattr(base, "decoder") and not any("decoder." in name for name in stored_tensors(home)):
        raise BadInputError(
            f"{folder.path} holds the encoder of a {whole.config.model_type} alone, and a cross-encoder's "
            "head stands on its decoder. Begin with a BERT, or with the whole model"
        )
    require_complete(folder, base, exactly=names_code(folder))
    if names_code(folder):
        del whole.config.auto_map
    take_plain_text(transformer, folder)  # pairs are tokenized as they are
    score_in_float32(model)
    pad_without_effect(model, folder)
    take_pairs(model)
    return model


def _task(call: OneTraining, sets: Sequence[PairRows], model: CrossEncoder, name: str) -> PairTask:
    """Score what a guide has to score, and report what is trained on."""
    chosen, joined, watch = call.chosen, call.joined, call.watch
    tokens = PairTokens(model, name)
    rows: list[PairRows] = []
    for one in sets:
        examples = one.examples
        if one.guide is not None:
            stop = watch.stop if joined.count == 1 else None
            precision = chosen.precision
            examples = scored_by(one.guide, examples, watch.report, stop, joined=joined, precision=precision)
        rows.append(dataclasses.replace(one, examples=examples))
        watch.report(f"{examples.name}: {len(examples):,} {examples.kind}, loss {one.loss}")
        if examples.kind is ExampleKind.PAIRS:
            watch.report(
                f"{examples.name}: {one.negatives} other rows' texts are each pair's negatives; mined ones "
                "teach more (nearsay train negatives)"
            )
        pairs = len(examples) * (len(examples.columns) - 1)
        if cut := tokens.cut((query, passage) for query, *passages in examples.texts for passage in passages):
            watch.report(f"{cut:,} of {pairs:,} pairs are cut at {model.max_seq_length} tokens")
    mix = ExampleMix(
        [one.examples for one in rows],
        batch=chosen.batch,
        seed=chosen.seed,
        sampling=chosen.sampling,
        distinct=[one.examples.kind is ExampleKind.PAIRS for one in rows],
    )
    for one, count in zip(rows, mix.batches, strict=True):
        if one.examples.kind is ExampleKind.PAIRS:
            require_batches(one.examples, -(-len(one.examples) // count), "a cross-encoder")
    for note in mix.notes:
        watch.report(note)
    watch.report(f"{sum(len(one.examples) for one in rows):,} rows in {mix.steps_per_epoch:,} steps an epoch")
    return PairTask(
        PairNetwork(model),
        rows,
        mix,
        tokens,
        seed=chosen.seed,
        tokens_at_once=chosen.tokens_at_once,
        precision=chosen.precision,
        joined=joined,
    )
