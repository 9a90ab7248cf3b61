"""From a configuration and what is known of the data to an objective."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.matryoshka import MatryoshkaObjective
from nearsay.training.sentence.objectives.objective import LearnedData, SentenceObjective
from nearsay.training.sentence.objectives.table import kind_to_learn_from

logger = logging.getLogger("nearsay")


def make_objective(
    config: ObjectiveConfig,
    *,
    kind: ExampleKind,
    dimension: int,
    label_names: Sequence[str] = (),
    label_range: tuple[float, float] | None = None,
    guide_dimension: int | None = None,
    base: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> SentenceObjective:
    """Make an objective for data of a kind; its `config` has every default filled in, to be saved.

    kind:            as the data come to it, after `kind_to_learn_from`
    dimension:       numbers in the encoder's vectors
    label_names:     of NLI data and of classes; labelled pairs have two
    label_range:     the data's lowest and highest score, when the configuration names none
    guide_dimension: numbers in the teacher's vectors; None: as in the encoder's
    base, tokenizer: the encoder's transformer, of which TSDAE makes its decoder

    Weights that are drawn come from torch's generator. Raises BadInputError when the data do not fit, naming
    the objectives that do, and when dimensions or labels do not.
    """
    if kind not in config.kind.loss.learns_from:
        kind_needed = kind_to_learn_from(config.kind, kind)
        raise BadInputError(
            f"the objective {config.kind} does not learn from {kind} as they are. "
            f"Turn them into {kind_needed} first"
        )
    resolved = config.resolved(_used_range(config, label_range))
    names = tuple(label_names) or (("0", "1") if kind is ExampleKind.LABELLED else ())
    taught = guide_dimension or dimension
    data = LearnedData(dimension, names, taught, base, tokenizer)
    if not resolved.matryoshka:
        return _single(resolved, data)
    if resolved.matryoshka[0] > dimension:
        raise BadInputError(
            f"the encoder's vectors have {dimension} dimensions, and matryoshka asks for "
            f"{resolved.matryoshka[0]}. Give numbers up to {dimension}"
        )
    if resolved.matryoshka[0] < dimension:
        logger.warning(
            "the matryoshka dimensions %s leave out %s, all of them: whole vectors are not trained",
            resolved.matryoshka,
            dimension,
        )
    plain = replace(resolved, matryoshka=())

    def first(cut: int) -> SentenceObjective:
        return _single(
            plain, replace(data, dimension=cut, guide_dimension=cut if taught == dimension else taught)
        )

    return MatryoshkaObjective(resolved, first)


def _single(config: ObjectiveConfig, data: LearnedData) -> SentenceObjective:
    module, name = config.kind.loss.made_by.split(":")
    made: type[SentenceObjective] = getattr(
        import_module(f"nearsay.training.sentence.objectives.{module}"), name
    )
    return made.make(config, data)


def _used_range(
    config: ObjectiveConfig, label_range: tuple[float, float] | None
) -> tuple[float, float] | None:
    """The data's range when it is needed; BadInputError when it tells nothing or does not fit."""
    if "score_range" not in config.kind.loss.settings or label_range is None:
        return label_range
    least, most = map(float, label_range)
    if config.score_range is None:
        if not least < most:
            raise BadInputError(
                f"every score is {least}, which tells no scale. Give score_range, such as 0 and 5"
            )
        return (least, most)
    if least < config.score_range[0] or most > config.score_range[1]:
        raise BadInputError(
            f"the scores go from {least} to {most}, and score_range is {config.score_range}. "
            "Widen it, or mend the scores"
        )
    return None
