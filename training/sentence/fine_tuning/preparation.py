"""From training sets to what the loop trains: examples of the right kind, objectives, guides, tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.columns import is_negative_name
from nearsay.data.sentence_examples.conversion import as_pairs, as_texts, as_tuples, same_class_pairs
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.processes import Processes
from nearsay.training.run.training_progress import go_on
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.sentence_task import SentenceTask
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.step_texts import (
    GuideVectors,
    StepTexts,
    column_kinds,
    guided_columns,
)
from nearsay.training.sentence.negatives.cross_encoder import load_judge
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.table import ObjectiveKind, kind_to_learn_from
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder
from nearsay.training.sentence.tokens import TextTokenizer

_ROWS_SCORED = 1024
_CONVERSIONS = {
    ExampleKind.TUPLES: as_tuples,
    ExampleKind.PAIRS: as_pairs,
    ExampleKind.TEXTS: as_texts,
    ExampleKind.CLASSES: same_class_pairs,
}


@dataclass(frozen=True, slots=True)
class PreparedSets:
    """The inputs of the training loop."""

    task: SentenceTask
    network: SentenceNetwork
    truncated: int  # distinct texts of each set that were truncated
    texts: int  # distinct texts of each set
    limit: int  # maximum tokens of a text, with special ones
    notes: tuple[str, ...] = ()  # on the batches, for the user


def converted_set(given: TrainingSet) -> TrainingSet:
    """Convert a set's examples to the kind that its objective needs.

    Raises BadInputError if that is impossible, if nothing is left, and if a guide is missing or superfluous.
    """
    objective = given.objective.kind
    examples, guide = given.examples, objective.loss.guide
    require_guide(f"objective {objective}", guide, examples, given.guide)
    require_rows(examples, objective, compares_labels=objective.loss.compares_labels)
    wanted = kind_to_learn_from(objective, examples.kind)
    if guide == "teacher" and any(map(is_negative_name, examples.columns)):
        wanted = ExampleKind.TEXTS  # no translations of the first column: each text learns its own vector
    if wanted is not examples.kind or wanted is ExampleKind.CLASSES:
        examples = _CONVERSIONS[wanted](examples)
    if not len(examples):
        raise BadInputError(
            f"{given.examples.name} holds nothing for the objective {objective}: no {wanted} can be made of "
            f"its {counted(len(given.examples), 'row')}. Take other data or another objective"
        )
    return replace(given, examples=examples, symmetric=given.examples.kind.is_labelled)


def require_rows(examples: SentenceExamples, learner: str, *, compares_labels: bool) -> None:
    """Raise BadInputError for a set without rows, or with a single label if the objective compares labels."""
    if not len(examples):
        raise BadInputError(f"{examples.name} holds no row to learn from. Take other data")
    least, most = (0.0, 1.0) if examples.labels is None else examples.label_range or (0.0, 1.0)
    if compares_labels and least == most:
        are = f"all {len(examples):,} labels of {examples.name} are"
        classed = examples.kind is ExampleKind.CLASSES
        raise BadInputError(
            f"{are if len(examples) > 1 else f'the only label of {examples.name} is'} "
            f"{repr(examples.label_names[int(least)]) if classed else f'{least:g}'}; {learner} learns from "
            f"their differences. Take other data or another {'kind, as texts' if classed else 'loss'}"
        )


def require_batches(examples: SentenceExamples, batch: int, learner: str) -> None:
    """Raise BadInputError if a row is alone in its batch; `learner`: what compares it with the others."""
    if min(batch, len(examples)) < 2:
        raise BadInputError(
            f"{learner} compares a row with the others of its batch, and the batches of {examples.name}, "
            f"{counted(len(examples), 'row')}, hold one. Give more rows of other texts, or a batch of 2 or "
            "more"
        )


def require_guide(loss: str, wanted: str, examples: SentenceExamples, guide: str | None) -> None:
    """Raise BadInputError if a guide is missing or useless.

    loss:   its name in messages, "objective kl"
    wanted: the kind of guide that it needs, as in `Loss.guide`
    """
    scored = wanted == "scores" and examples.scores is not None
    if (bool(wanted) and not scored) == (guide is not None):
        return
    if scored:
        said = "takes the scores that stand in the data. Leave the guide out, or the scores"
    elif not wanted:
        said = "has no use for a guide. Leave the guide out"
    elif wanted == "scores":
        said = (
            "needs a score of each passage. Name a cross-encoder or an encoder that gives it (--guide), or a "
            "field that holds them (--label)"
        )
    else:
        said = f"needs another encoder's vectors. Name a {wanted} (--guide)"
    raise BadInputError(f"the {loss} of {examples.name} {said}")


def prepare_sets(
    sets: Sequence[TrainingSet],
    encoder: SentenceTransformer,
    tokenizer: TextTokenizer,
    prompts: dict[TextKind, str],
    options: SentenceTraining,
    *,
    report: Callable[[str], None],
    stop: Callable[[], bool] | None = None,
    joined: Processes | None = None,
) -> PreparedSets:
    """Create objectives, guides' vectors and token numbers; new weights are initialised from the seed.

    sets:   converted ones
    report: called with the progress of a guide
    stop:   called as well; True raises StoppedError in a single process, while several stop after a step
    joined: the processes that train together; None: a single one
    """
    device = str(encoder.device)
    together = joined or Processes(device=device)
    stop = stop if together.count == 1 else None
    objectives: list[SentenceObjective] = []
    texts: list[StepTexts] = []
    for one in sets:
        guide = None
        if one.guide is not None and one.objective.kind.loss.guide == "scores":
            scored = scored_by(
                one.guide,
                one.examples,
                report,
                stop,
                joined=together,
                precision=options.precision,
            )
            one = replace(one, examples=scored)  # noqa: PLW2901 - the same set
        elif one.guide is not None:
            loaded = Encoder.load(one.guide, device=device, precision=options.precision)
            guide = _guide(one, loaded, report, stop, together)
            del loaded  # a GPU has its memory for the training
        objective = _objective(one, encoder, None if guide is None else guide.dimension, options.seed)
        objectives.append(objective)
        texts.append(
            StepTexts(
                one.examples,
                objective.config,
                tokenizer,
                prompts,
                guide=guide,
                symmetric=one.symmetric,
                pad_id=int(getattr(encoder.tokenizer, "pad_token_id", None) or 0),
                seed=options.seed,
            )
        )
    mix = ExampleMix(
        [one.examples for one in sets],
        batch=[one.batch or options.batch for one in sets],
        seed=options.seed,
        sampling=options.sampling,
        distinct=[objective.distinct for objective in objectives],
    )
    for one, count in zip(sets, mix.batches, strict=True):
        loss = one.objective.kind
        if loss.loss.compares_rows and one.examples.kind is not ExampleKind.TUPLES:  # one text may be in all
            require_batches(one.examples, -(-len(one.examples) // count), f"the objective {loss}")
    if together.count > 1 and any(objective.generates for objective in objectives):
        raise BadInputError(
            f"the objective {ObjectiveKind.TSDAE} trains in one process, and torchrun started "
            f"{together.count}. Start it without torchrun"
        )
    network = SentenceNetwork(encoder, objectives, joined).to(device)
    names = [one.examples.name for one in sets]
    task = SentenceTask(
        network,
        texts,
        mix,
        names=names,
        tokens_at_once=options.tokens_at_once,
        precision=options.precision,
        joined=joined,
    )
    truncated = sum(one.tokens.truncated for one in texts)
    count = sum(one.tokens.count for one in texts)
    return PreparedSets(task, network, truncated, count, tokenizer.limit, mix.notes)


def scored_by(
    guide: str,
    examples: SentenceExamples,
    report: Callable[[str], None],
    stop: Callable[[], bool] | None = None,
    *,
    joined: Processes,
    precision: Precision,
) -> SentenceExamples:
    """Add the scores of a cross-encoder or an encoder to the tuples' passages.

    stop:   called after some rows; True raises StoppedError
    joined: the processes that divide the rows
    """
    judge = load_judge(guide, device=joined.device, precision=precision)
    rows, count = examples.texts, joined.count
    own = np.arange(joined.rank, len(rows), count)
    found = np.empty((len(own), len(examples.columns) - 1), np.float32)
    for start in range(0, len(own), _ROWS_SCORED):
        window = rows.many(own[start : start + _ROWS_SCORED])
        end = start + len(window)
        of_window = judge.scores([(row[0], passage) for row in window for passage in row[1:]])
        found[start:end] = of_window.reshape(len(window), -1)
        done = min(end * count, len(rows))
        report(f"{judge.name} has scored {done:,} of {len(rows):,} rows of {examples.name}")
        go_on(end, len(own), stop)
    scores = joined.in_order(torch.from_numpy(found), len(rows)).double().numpy()
    return replace(examples, scores=scores, sha256="")


def _guide(
    one: TrainingSet,
    guide: VectorEncoder,
    report: Callable[[str], None],
    stop: Callable[[], bool] | None,
    joined: Processes,
) -> GuideVectors:
    examples, objective = one.examples, one.objective.kind
    kinds = column_kinds(examples, objective, symmetric=one.symmetric)
    columns = sorted(set(guided_columns(examples, objective)))

    def progress(done: int, total: int) -> None:
        report(f"{guide.name} has encoded {done:,} of {total:,} texts of {examples.name}")
        go_on(done, total, stop)

    encoded = examples.texts.columns(columns)
    return GuideVectors(
        guide, encoded, [kinds[column] for column in columns], progress=progress, joined=joined
    )


def _objective(
    one: TrainingSet, encoder: SentenceTransformer, guide_dimension: int | None, seed: int
) -> SentenceObjective:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_objective(
            one.objective,
            kind=one.examples.kind,
            dimension=int(encoder.get_embedding_dimension() or 0),
            label_names=one.examples.label_names,
            label_range=one.examples.label_range,
            guide_dimension=guide_dimension,
            base=_transformer(encoder),
            tokenizer=encoder.tokenizer,
        )


def _transformer(encoder: SentenceTransformer) -> PreTrainedModel | None:
    model = getattr(encoder[0], "auto_model", None)
    return model if isinstance(model, PreTrainedModel) else None
