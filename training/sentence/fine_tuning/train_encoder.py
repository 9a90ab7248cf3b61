"""Training a sentence encoder: Siamese and triplet networks, and what has come since."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.examples import ExampleKind, SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LearnedTexts, find_leaks, without_leaks
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.loop import train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes, processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import TrainingTask
from nearsay.training.run.training_progress import StoppedError, Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.measuring import Measured, TrainedEncoder, changes, dev_evaluation
from nearsay.training.sentence.fine_tuning.preparation import PreparedSets, converted_set, prepare_sets
from nearsay.training.sentence.fine_tuning.sentence_folder import (
    finish_encoder,
    learned_from,
    told_judged,
    told_sets,
)
from nearsay.training.sentence.fine_tuning.settings import (
    EncoderStructure,
    SentenceResult,
    SentenceTraining,
    TrainingSet,
    usual_epochs,
)
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.objectives.simcse import require_dropout
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.prompts import prompt_note
from nearsay.training.sentence.refusal import refuse_unsafe
from nearsay.training.sentence.source import EncoderSource, find_encoder, lineage_of
from nearsay.training.sentence.tokens import shortened

if TYPE_CHECKING:
    from peft import LoraModel

__all__ = [
    "begin_run",
    "require_trainable",
    "texts_learned",
    "train_rows",
    "train_sentence_encoder",
    "with_epochs",
    "without_all_leaks",
]


_NO_STATES = ".*pooler.*"  # a BERT's pooler, which gives no sentence's vector


def add_adapters(encoder: SentenceTransformer, options: SentenceTraining, *, name: str) -> "LoraModel | None":
    """Freeze the encoder's transformer and put adapters beside its linear layers, in place, if any are asked.

    options: their rank, scale and layers; the seed that the first matrices are drawn from
    name:    of the encoder, for messages
    returns: what `merge_adapters` takes; None when no rank was given

    The output of a layer is `x W + (alpha / rank) x A B`, and B begins with zeros: the encoder gives the same
    vectors until it has learned something. Projections after the pooling are trained as they are.
    Raises MissingExtraError without peft, BadInputError for an encoder or a target without linear layers.

    Hu et al. 2021, https://arxiv.org/abs/2106.09685
    """
    if options.lora_rank is None:
        return None
    transformer = getattr(encoder[0], "auto_model", None)
    if not isinstance(transformer, PreTrainedModel):
        raise BadInputError(
            f"LoRA trains beside a transformer's linear layers, and {name} has none. Leave --lora-rank out"
        )
    try:
        from peft import LoraConfig, LoraModel
    except ImportError as error:
        raise MissingExtraError("Training with LoRA", "lora") from error
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.scale,
        target_modules=options.lora_targets.split(",") if options.lora_targets else "all-linear",
        exclude_modules=_NO_STATES,
        bias="none",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        try:
            return LoraModel(transformer, config, "default")
        except ValueError as error:
            linear = {
                place.rpartition(".")[2]
                for place, module in transformer.named_modules()
                if isinstance(module, nn.Linear)
            }
            raise BadInputError(
                f"{name} has no linear layers {options.lora_targets}. It has: {', '.join(sorted(linear))}"
            ) from error


def merge_adapters(adapters: "LoraModel") -> None:
    """Add the adapters' products to the weights, in place: the encoder is as it was, with other weights."""
    adapters.merge_and_unload()
    adapters.model.requires_grad_(requires_grad=True)


_MOST_EVALUATIONS = 10  # of the dev set, where the number of epochs was chosen by the rows
_SHOWN = 40  # characters of a text of a row that is shown


def train_sentence_encoder(
    sets: Sequence[TrainingSet],
    out: str | Path,
    *,
    base: str | Path = BUNDLED_NAME,
    structure: EncoderStructure | None = None,
    options: SentenceTraining | None = None,
    dev: JudgedSet | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> SentenceResult:
    """Train a BERT or a sentence encoder on the sets, into the folder `out`, or resume the run there.

    Started by torchrun, the processes divide every batch among their GPUs; the losses are those of the whole
    batch. The first one measures and writes; the result of the others says that they do not lead.

    dev:   measured while it trains; the weights of the best time are kept. None: the last ones
    tests: measured before and after; rows of the sets that give them away are left out and counted
    Raises BadInputError for data and settings that cannot be trained with, NearsayError for a base that
    cannot be loaded, and DiskFullError; what was written until then is a run that the same call resumes.

    Reimers & Gurevych 2019, https://arxiv.org/abs/1908.10084
    """
    with processes(device) as joined:
        told = watch or Watch()
        if not joined.leads:  # the first one reports for all
            told = Watch(stop=told.stop)
        return _train(
            sets,
            RunFolder(out),
            find_encoder(base),
            structure or EncoderStructure(),
            options or SentenceTraining(),
            dev,
            tests,
            joined,
            told,
        )


def _train(  # noqa: PLR0917 - one call's parts
    sets: Sequence[TrainingSet],
    run: RunFolder,
    source: EncoderSource,
    structure: EncoderStructure,
    chosen: SentenceTraining,
    dev: JudgedSet | None,
    tests: Sequence[JudgedSet],
    joined: Processes,
    watch: Watch,
) -> SentenceResult:
    require_trainable(sets, dev, chosen)
    held_out = [*tests, *([dev] if dev else [])]
    kept = without_all_leaks([one.examples for one in sets], held_out, watch)
    sets = [
        converted_set(dataclasses.replace(one, examples=examples))
        for one, examples in zip(sets, kept, strict=True)
        if examples is not None
    ]
    place = joined.device
    refuse_unsafe(source.folder)
    encoder = build_encoder(source.folder, structure, device=place, seed=chosen.seed)
    if any(one.objective.kind.loss.passes > 1 for one in sets):
        require_dropout(encoder, source.name)
    adapters = _adapters(encoder, sets, chosen, source.name, watch)
    asked, chosen = chosen, with_epochs(chosen, sum(len(one.examples) for one in sets), run, watch)
    settings: dict[str, JsonValue] = {
        "task": "sentence encoder",
        "base": source.source,
        "base_sha256": combined_sha256(weight_hashes(source.folder)),
        "sets": told_sets(sets),
        "structure": structure.to_json(),
        "dev": None if dev is None else told_judged(dev),
        **chosen.to_json(),
    }
    begin_run(run, settings, chosen, joined, watch)
    measured = TrainedEncoder(source, encoder)
    own = structure.query_prompt, structure.passage_prompt
    if own == (None, None) and (note := prompt_note(source)) is not None:
        watch.report(note)
    tokenizer = measured.cutting_at(chosen.training_length)
    try:
        prepared = prepare_sets(
            sets,
            encoder,
            tokenizer,
            measured.prompts,
            chosen,
            report=watch.report,
            stop=watch.stop,
            joined=joined,
        )
    except StoppedError:
        return SentenceResult(finished=False, seconds=0.0)
    _report(prepared, sets, watch)
    result = train_rows(
        prepared.task,
        run,
        chosen,
        joined,
        watch,
        rows=sum(len(one.examples) for one in sets),
        steps=prepared.task.steps_per_epoch,
        dev=dev,
        measured=measured,
        limited=asked.epochs != chosen.epochs,
    )
    if not result.finished or not result.leads:
        return result
    if adapters is not None:
        merge_adapters(adapters)
    result = dataclasses.replace(result, base_dev=_base_dev(run))
    if tests:
        watch.report("measuring the base and what was made of it")
        base_model = build_encoder(source.folder, structure, device=place, seed=chosen.seed)
        before = TrainedEncoder(source, base_model)
        found = changes(before, measured, tests, precision=chosen.precision, device=place)
        result = dataclasses.replace(result, changes=found)
    finish_encoder(
        run,
        encoder,
        result,
        learned=learned_from(sets) + _told_lora(chosen),
        base=lineage_of(source),
        settings=settings,
        texts=texts_learned(source, [one.examples for one in sets], [one.guide for one in sets]),
    )
    return result


def begin_run(
    run: RunFolder,
    settings: dict[str, JsonValue],
    chosen: SentenceTraining,
    joined: Processes,
    watch: Watch,
) -> None:
    """Begin or resume the run, on the process that leads; the settings get those of the environment."""
    environment = RunEnvironment.here(joined.device, chosen.precision, processes=joined.count)
    joined.wait()  # all have read what was there
    if joined.leads and run.begin(settings, environment, exact=chosen.exact_resume):
        watch.report(f"going on with the run in {run.out}")
    joined.wait()
    settings |= environment.settings()


def train_rows(
    task: TrainingTask,
    run: RunFolder,
    chosen: SentenceTraining,
    joined: Processes,
    watch: Watch,
    *,
    rows: int,
    steps: int,
    dev: JudgedSet | None,
    measured: Measured,
    limited: bool,
    first: bool = True,
) -> SentenceResult:
    """Run the loop over the task's rows and steps, so many an epoch, and measure on dev.

    limited: whether the number of epochs was chosen by the rows
    """
    optimisation = _optimisation(chosen, steps)
    evaluation = None
    if dev is not None:
        every = _steps_between(chosen, steps, optimisation, limited=limited)
        evaluation = dev_evaluation(dev, measured, every=every, patience=chosen.patience, first=first)
    ended = train(
        task,
        run,
        optimisation,
        joined,
        evaluation=evaluation,
        listener=watch.listener,
        stop=watch.stop,
        log_to=watch.log_to,
    )
    return SentenceResult(
        finished=ended.finished,
        seconds=ended.seconds,
        steps=ended.steps,
        stopped_early=ended.stopped_early,
        pairs_per_second=rows * ended.steps / steps / max(ended.seconds, 1e-9),
        training=ended.metrics,
        dev=ended.evaluation,
        leads=joined.leads,
    )


def texts_learned(
    source: EncoderSource, sets: Sequence[SentenceExamples], guides: Iterable[str | None]
) -> LearnedTexts:
    """The texts of the sets, those that the base learned from, and those of teachers and guides."""
    found = LearnedTexts.of(source.folder.path, source.name)
    for guide in dict.fromkeys(guides):
        if guide is not None:
            teacher = find_encoder(guide)
            found = found.with_encoder(teacher.folder.path, teacher.name)
    for one in sets:
        found = found.with_texts(chain.from_iterable(one.texts), one.name)
    return found


def _adapters(
    encoder: SentenceTransformer,
    sets: Sequence[TrainingSet],
    options: SentenceTraining,
    name: str,
    watch: Watch,
) -> "LoraModel | None":
    if options.lora_rank is not None and any(one.objective.kind is ObjectiveKind.TSDAE for one in sets):
        raise BadInputError(
            f"the objective {ObjectiveKind.TSDAE} makes its decoder of the encoder's own weights, which LoRA "
            f"leaves as they are. Leave --lora-rank out, or take {ObjectiveKind.SIMCSE}"
        )
    adapters = add_adapters(encoder, options, name=name)
    if adapters is not None:
        every = list(encoder.parameters())
        trained = sum(one.numel() for one in every if one.requires_grad)
        whole = sum(one.numel() for one in every)
        watch.report(f"LoRA trains {trained:,} parameters; {whole - trained:,} are frozen")
    return adapters


def _told_lora(options: SentenceTraining) -> str:
    if options.lora_rank is None:
        return ""
    targets = options.lora_targets or "all-linear"
    return f", LoRA of rank {options.lora_rank} and alpha {options.scale} on {targets}, merged"


def require_trainable(sets: Sequence[object], dev: JudgedSet | None, options: SentenceTraining) -> None:
    """Raise BadInputError when there is no set, or patience without a dev set."""
    if not sets:
        raise BadInputError("there is nothing to train on. Name a file of pairs, triplets or texts")
    if dev is None and options.patience is not None:
        raise BadInputError(
            "patience counts evaluations of a dev set, and there is none. Name one with --dev, or leave "
            "--patience out"
        )


def without_all_leaks(
    sets: Sequence[SentenceExamples], held_out: Sequence[JudgedSet], watch: Watch
) -> list[SentenceExamples | None]:
    """Leave out the rows that the encoder is to be measured on, and say how many and of which sets they are.

    A set of which nothing is left is None; BadInputError when that is all there is.
    """
    if not held_out:
        return list(sets)
    kept: list[SentenceExamples | None] = []
    emptied: list[str] = []
    for one in sets:
        others, leaked = without_leaks(one, chain.from_iterable(judged.held_out() for judged in held_out))
        if not leaked:
            kept.append(one)
            continue
        rows = counted(len(one), "row")
        found = f"{leaked:,} of {rows} of {one.name} {_leaks(one, held_out)}"
        if one.kind is ExampleKind.TEXTS:
            watch.report(f"{found}; a text alone tells no judgement, so they stay")
            kept.append(one)
        elif len(others):
            watch.report(f"{found}: left out")
            kept.append(others)
        else:
            watch.report(f"{found}: left out, and nothing is left of it")
            emptied.append(found)
            kept.append(None)
    if len(emptied) == len(sets):
        raise BadInputError(
            f"every row gives an evaluation away: {'; '.join(emptied)}. Train on other rows, or measure on a "
            "set that does not hold them"
        )
    return kept


def _leaks(examples: SentenceExamples, held_out: Sequence[JudgedSet]) -> str:
    """Say in which of the sets the leaking rows are: how many in each, and the first."""
    report = find_leaks(examples, chain.from_iterable(judged.held_out() for judged in held_out))
    leaking = examples.select(report.leaking)
    parts = []
    for judged in held_out:
        if rows := find_leaks(leaking, judged.held_out()).leaking:
            first = " + ".join(shortened(text, _SHOWN) for text in leaking.texts[rows[0]])
            parts.append(f"{judged.name} ({len(rows):,}, such as {first})")
    are = "is" if len(report.leaking) == 1 else "are"
    return f"{are} also in {' and '.join(dict.fromkeys(parts))}"


def with_epochs(options: SentenceTraining, examples: int, run: RunFolder, watch: Watch) -> SentenceTraining:
    """Settle the number of epochs, if nothing says how long to train: of the run there, else by the rows."""
    if options.epochs is not None or options.steps is not None or options.minutes is not None:
        return options
    if run.has_checkpoint and isinstance(begun := run.config().get("epochs"), int | float):
        return dataclasses.replace(options, epochs=float(begun))
    epochs = usual_epochs(examples)
    watch.report(
        f"{counted(examples, 'example')}, so {counted(epochs, 'epoch')}: few rows are learned from several "
        "times; another number of epochs may be given"
    )
    return dataclasses.replace(options, epochs=float(epochs))


def _base_dev(run: RunFolder) -> dict[str, float]:
    """The evaluation before the first step."""
    for line in read_metrics(run.metrics):
        told = line.get("evaluation")
        if line.get("step") == 0 and isinstance(told, dict):
            return {name: float(value) for name, value in told.items() if isinstance(value, int | float)}
    return {}


def _report(prepared: PreparedSets, sets: Sequence[TrainingSet], watch: Watch) -> None:
    for one in sets:
        examples = one.examples
        watch.report(f"{examples.name}: {len(examples):,} {examples.kind}, objective {one.objective.kind}")
        if one.objective.kind.loss.guide == "teacher" and len(examples.columns) > 1:
            columns = [repr(column) for column in examples.columns]
            watch.report(
                f"{examples.name}: {' and '.join(columns)} are taken for translations of each other, and all "
                f"learn the vector that {one.guide} gives {columns[0]}"
            )
    rows = sum(len(one.examples) for one in sets)
    steps = prepared.task.steps_per_epoch
    watch.report(f"{rows:,} rows in {steps:,} steps an epoch, {prepared.texts:,} different texts")
    for note in prepared.notes:
        watch.report(note)
    if prepared.truncated:
        watch.report(f"{prepared.truncated:,} of {prepared.texts:,} texts are cut at {prepared.limit} tokens")


def _steps_between(
    options: SentenceTraining, steps_per_epoch: int, optimisation: Optimisation, *, limited: bool
) -> int | None:
    """Give the steps between two evaluations of the dev set; None: at the end alone.

    limited: whether the number of epochs was chosen by the rows, so that there may be many
    """
    if options.evaluations is None:
        return None
    every = max(round(steps_per_epoch / options.evaluations), 1)
    return max(every, math.ceil((optimisation.steps or 0) / _MOST_EVALUATIONS)) if limited else every


def _optimisation(options: SentenceTraining, steps_per_epoch: int) -> Optimisation:
    """Give the loop's settings."""
    steps = options.steps
    if steps is None and options.minutes is None:
        steps = max(round((options.epochs or 1.0) * steps_per_epoch), 1)
    return Optimisation(
        steps=steps,
        minutes=options.minutes,
        learning_rate=options.learning_rate,
        warmup_share=options.warmup_share,
        weight_decay=options.weight_decay,
        precision=options.precision,
        seed=options.seed,
        compile=False,  # texts of many lengths would be compiled again and again
        log_every=max(min(steps_per_epoch // 10, 50), 1),
    )
