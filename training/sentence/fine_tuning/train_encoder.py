"""Training a sentence encoder: Siamese and triplet networks, and what has come since."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.read_options import field_names
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.training_progress import StoppedError, Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.measuring import (
    TrainedEncoder,
    changed,
    dev_figure,
    outcomes,
)
from nearsay.training.sentence.fine_tuning.one_training import OneTraining, begun_training
from nearsay.training.sentence.fine_tuning.preparation import (
    PreparedSets,
    converted_set,
    prepare_sets,
    require_batches,
)
from nearsay.training.sentence.fine_tuning.sentence_folder import (
    finish_encoder,
    learned_from,
    told_sets,
)
from nearsay.training.sentence.fine_tuning.settings import (
    EncoderStructure,
    SentenceResult,
    SentenceTraining,
    TrainingSet,
)
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.objectives.simcse import require_dropout
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.prompts import prompt_note
from nearsay.training.sentence.refusal import refuse_unsafe
from nearsay.training.sentence.source import find_encoder, lineage_of

if TYPE_CHECKING:
    from peft import LoraModel

_NO_STATES = ".*pooler.*"  # a BERT's pooler, which gives no sentence's vector


def add_adapters(encoder: SentenceTransformer, options: SentenceTraining, *, name: str) -> "LoraModel | None":
    """Freeze the encoder's transformer and add LoRA adapters to its linear layers, in place, if requested.

    options: rank, scale and layers; the seed of the initial matrices
    name:    of the encoder, for messages
    returns: what `merge_adapters` needs; None without a rank

    The output of a layer is `x W + (alpha / rank) x A B`, and B is initialised with zeros, so the vectors do
    not change until something is learned. Projections after the pooling are trained fully. Raises
    MissingExtraError without peft, BadInputError for an encoder or a target without linear layers.

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
    widths = [
        min(layer.in_features, layer.out_features)
        for layer in transformer.modules()
        if isinstance(layer, nn.Linear)
    ]
    if widths and options.lora_rank > max(widths):
        raise BadInputError(
            f"the LoRA rank is {options.lora_rank}, and no linear layer of {name} has a higher one than "
            f"{max(widths)}. Give {max(widths)} or less, such as 8"
        )
    targets = list(field_names(options.lora_targets or ""))
    places = [f".{place}" for place, _ in transformer.named_modules()]
    if unknown := [one for one in targets if not any(place.endswith(f".{one}") for place in places)]:
        raise _no_layers(transformer, unknown, name)  # peft passes over what it does not find
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.scale,
        target_modules=targets or "all-linear",
        exclude_modules=_NO_STATES,
        bias="none",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        try:
            return LoraModel(transformer, config, "default")
        except ValueError as error:
            raise _no_layers(transformer, targets, name) from error


def _no_layers(transformer: nn.Module, targets: Sequence[str], name: str) -> BadInputError:
    linear = {
        place.rpartition(".")[2]
        for place, module in transformer.named_modules()
        if isinstance(module, nn.Linear)
    }
    return BadInputError(
        f"{name} has no linear layers {', '.join(targets)}. It has: {', '.join(sorted(linear))}"
    )


def merge_adapters(adapters: "LoraModel") -> None:
    """Merge the adapters into the weights, in place; the encoder then has its original structure."""
    adapters.merge_and_unload()
    adapters.model.requires_grad_(requires_grad=True)


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
    batch. The first process measures and writes; the results of the others have `leads` False.

    dev:   measured during the training; the weights of the best evaluation are kept. None: the last ones
    tests: measured before and after; rows of the sets that leak them are left out and counted

    Raises BadInputError for unusable data and settings, NearsayError for a base that cannot be loaded, and
    DiskFullError; what was written until then can be resumed by the same call.

    Reimers & Gurevych 2019, https://arxiv.org/abs/1908.10084
    """
    with begun_training(out, base, options, dev, tests, device=device, watch=watch) as one:
        return _train(one, sets, structure or EncoderStructure())


def _train(call: OneTraining, sets: Sequence[TrainingSet], structure: EncoderStructure) -> SentenceResult:
    source, watch, joined = call.source, call.watch, call.joined
    kept = call.without_leaks([one.examples for one in sets])
    sets = [
        converted_set(dataclasses.replace(one, examples=examples))
        for one, examples in zip(sets, kept, strict=True)
        if examples is not None
    ]
    for one in sets:
        objective = one.objective.kind
        if one.guide is not None and objective.loss.guide != "scores":
            _require_vectors(one.guide, f"the objective {objective} of {one.examples.name}")
        if objective.loss.compares_rows and one.examples.kind is not ExampleKind.TUPLES:
            require_batches(one.examples, one.batch or call.chosen.batch, f"the objective {objective}")
    learned = [one.examples for one in sets]
    refuse_unsafe(source.folder)
    encoder = build_encoder(source.folder, structure, device=joined.device, seed=call.chosen.seed)
    # A projection drawn by chance is nothing to keep, and not what the base gives.
    is_drawn = structure.dimension is not None and encoder.get_embedding_dimension() != (
        _base(call, structure).get_embedding_dimension()
    )
    if any(one.objective.kind.loss.passes > 1 for one in sets):
        require_dropout(encoder, source.name)
    adapters = _adapters(encoder, sets, call.chosen, source.name, watch)
    measured = TrainedEncoder(source, encoder)
    told = told_sets(sets, measured.prompts)
    call.begin("sentence encoder", learned, {"sets": told, "structure": structure.to_json()})
    chosen = call.chosen
    own = structure.query_prompt, structure.passage_prompt
    if own == (None, None) and (note := prompt_note(source)) is not None:
        watch.report(note)
    try:
        prepared = prepare_sets(
            sets,
            encoder,
            measured.cutting_at(chosen.training_length),
            measured.prompts,
            chosen,
            report=watch.report,
            stop=watch.stop,
            joined=joined,
        )
    except StoppedError:
        return SentenceResult(finished=False, seconds=0.0)
    _report(prepared, sets, watch)
    result = call.train(prepared.task, prepared.task.steps_per_epoch, measured, first=not is_drawn)
    if not result.finished or not result.leads:
        return result
    if adapters is not None:
        merge_adapters(adapters)
    if call.tests or (is_drawn and call.dev is not None):
        watch.report("measuring the base and what was made of it")
        before = TrainedEncoder(source, _base(call, structure))
        measuring = partial(outcomes, precision=chosen.precision, device=joined.device, stop=watch.stop)
        try:
            with call.measuring():
                if is_drawn and call.dev is not None:
                    result = dataclasses.replace(result, base_dev=dev_figure(*measuring(before, [call.dev])))
                found = changed(measuring(before, call.tests), measuring(measured, call.tests))
        except StoppedError:
            return dataclasses.replace(result, finished=False)
        result = dataclasses.replace(result, changes=found)
    finish_encoder(
        call.run,
        encoder,
        result,
        learned=learned_from(sets) + _told_lora(chosen),
        base=lineage_of(source),
        settings=call.settings,
        texts=call.texts_learned(learned, [one.guide for one in sets]),
    )
    return result


def _base(call: OneTraining, structure: EncoderStructure) -> SentenceTransformer:
    """What the run begins with, but for a new projection: the vectors that its user has without it."""
    plain = dataclasses.replace(structure, dimension=None)
    return build_encoder(call.source.folder, plain, device=call.joined.device, seed=call.chosen.seed)


def _require_vectors(guide: str, learner: str) -> None:
    if find_encoder(guide).folder.is_cross_encoder:
        raise BadInputError(
            f"{learner} needs another encoder's vectors, and {guide} is a cross-encoder. "
            "Name an encoder (--guide)"
        )


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


def _report(prepared: PreparedSets, sets: Sequence[TrainingSet], watch: Watch) -> None:
    for one in sets:
        examples = one.examples
        watch.report(f"{examples.name}: {examples.said}, objective {one.objective.kind}")
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
