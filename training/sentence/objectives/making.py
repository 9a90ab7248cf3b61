"""From a configuration and what is known of the data to an objective."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.sentence.objectives.angle import AngleObjective
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.contrastive import ContrastiveObjective
from nearsay.training.sentence.objectives.cosent import CosentObjective
from nearsay.training.sentence.objectives.cosine import CosineObjective
from nearsay.training.sentence.objectives.denoising import DenoisingObjective
from nearsay.training.sentence.objectives.guided import GuidedObjective
from nearsay.training.sentence.objectives.kind import EXAMPLE_KINDS, ObjectiveKind, kind_to_learn_from
from nearsay.training.sentence.objectives.matryoshka import MatryoshkaObjective
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.ranking import RankingObjective
from nearsay.training.sentence.objectives.simcse import SimcseObjective
from nearsay.training.sentence.objectives.softmax import SoftmaxObjective
from nearsay.training.sentence.objectives.teacher import TeacherObjective
from nearsay.training.sentence.objectives.triplet import TripletObjective

__all__ = ["make_objective"]

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
    label_names:     of NLI data; labelled pairs have two
    label_range:     the data's lowest and highest score, when the configuration names none
    guide_dimension: numbers in the teacher's vectors; None: as in the encoder's
    base, tokenizer: the encoder's transformer, of which TSDAE makes its decoder

    Weights that are drawn come from torch's generator. Raises BadInputError when the data do not fit, naming
    the objectives that do, and when dimensions or labels do not.
    """
    if kind not in EXAMPLE_KINDS[config.kind]:
        kind_needed = kind_to_learn_from(config.kind, kind)
        raise BadInputError(
            f"the objective {config.kind} does not learn from {kind} as they are. "
            f"Turn them into {kind_needed} first"
        )
    resolved = config.resolved(_used_range(config, label_range))
    if resolved.kind is ObjectiveKind.TSDAE:
        return _denoising(resolved, dimension, base, tokenizer)
    names = tuple(label_names) or (("0", "1") if kind is ExampleKind.LABELLED else ())
    if not resolved.matryoshka:
        return _single(resolved, dimension, names, guide_dimension or dimension)
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
    taught = guide_dimension or dimension
    return MatryoshkaObjective(
        resolved, lambda cut: _single(plain, cut, names, cut if taught == dimension else taught)
    )


def _single(
    config: ObjectiveConfig, dimension: int, label_names: tuple[str, ...], teacher_dimension: int
) -> SentenceObjective:
    match config.kind:
        case ObjectiveKind.SOFTMAX:
            if len(label_names) < 2:
                raise BadInputError(
                    f"the objective {config.kind} tells labels apart, and the data have {len(label_names)}. "
                    "Take data with two labels or more, or another objective"
                )
            return SoftmaxObjective(config, dimension=dimension, label_names=label_names)
        case ObjectiveKind.GUIDED:
            return GuidedObjective(config)
        case ObjectiveKind.TEACHER:
            return TeacherObjective(config, dimension=dimension, teacher_dimension=teacher_dimension)
    made: dict[ObjectiveKind, Callable[..., SentenceObjective]] = {
        ObjectiveKind.COSINE: CosineObjective,
        ObjectiveKind.TRIPLET: TripletObjective,
        ObjectiveKind.RANKING: RankingObjective,
        ObjectiveKind.COSENT: CosentObjective,
        ObjectiveKind.ANGLE: AngleObjective,
        ObjectiveKind.CONTRASTIVE: ContrastiveObjective,
        ObjectiveKind.SIMCSE: SimcseObjective,
    }
    return made[config.kind](config, dimension=dimension)


def _denoising(
    config: ObjectiveConfig,
    dimension: int,
    base: PreTrainedModel | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> SentenceObjective:
    if base is None or tokenizer is None:
        raise BadInputError(
            f"the objective {config.kind} makes its decoder of the encoder's transformer, and this encoder "
            f"has none. Begin with a BERT, or take {ObjectiveKind.SIMCSE}"
        )
    if dimension != base.config.hidden_size:
        raise BadInputError(
            f"the objective {config.kind} needs vectors as wide as the transformer, "
            f"{base.config.hidden_size}, and the encoder's have {dimension}. "
            f"Leave out the projection, or take {ObjectiveKind.SIMCSE}"
        )
    return DenoisingObjective(base, tokenizer, config)


def _used_range(
    config: ObjectiveConfig, label_range: tuple[float, float] | None
) -> tuple[float, float] | None:
    """The data's range when it is needed; BadInputError when it tells nothing or does not fit."""
    if config.kind is not ObjectiveKind.COSINE or label_range is None:
        return None
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
