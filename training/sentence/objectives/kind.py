"""What a sentence encoder is asked to learn, and from which data."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.kind import ExampleKind

__all__ = ["EXAMPLE_KINDS", "ObjectiveKind", "kind_to_learn_from", "usual_objective_kind"]


class ObjectiveKind(StrEnum):
    """The objectives; each has a module of its own, with its formula."""

    SOFTMAX = "softmax"  # tell the label of a pair by a linear layer over both vectors
    COSINE = "cosine"  # the cosine of a pair is its score
    TRIPLET = "triplet"  # the positive is nearer than the negative, by a margin
    RANKING = "ranking"  # the positive is the nearest of all texts of the batch
    COSENT = "cosent"  # of two pairs, the one with the higher score has the higher cosine
    ANGLE = "angle"  # the same with the angle in complex space
    CONTRASTIVE = "contrastive"  # pairs that mean the same are near, others are a margin apart
    GUIDED = "guided"  # ranking without the texts that a guide holds for false negatives
    SIMCSE = "simcse"  # a text seen twice through dropout is nearest to itself
    TSDAE = "tsdae"  # the vector of a text with words deleted is enough to write the whole text
    TEACHER = "teacher"  # be near another encoder's vectors (distillation), across languages too


EXAMPLE_KINDS: Final[Mapping[ObjectiveKind, frozenset[ExampleKind]]] = {
    ObjectiveKind.SOFTMAX: frozenset({ExampleKind.NLI, ExampleKind.LABELLED}),
    ObjectiveKind.COSINE: frozenset({ExampleKind.SCORED, ExampleKind.LABELLED}),
    ObjectiveKind.TRIPLET: frozenset({ExampleKind.TUPLES}),
    ObjectiveKind.RANKING: frozenset({ExampleKind.PAIRS, ExampleKind.TUPLES}),
    ObjectiveKind.COSENT: frozenset({ExampleKind.SCORED, ExampleKind.LABELLED}),
    ObjectiveKind.ANGLE: frozenset({ExampleKind.SCORED, ExampleKind.LABELLED, ExampleKind.TUPLES}),
    ObjectiveKind.CONTRASTIVE: frozenset({ExampleKind.LABELLED}),
    ObjectiveKind.GUIDED: frozenset({ExampleKind.PAIRS, ExampleKind.TUPLES}),
    ObjectiveKind.SIMCSE: frozenset({ExampleKind.TEXTS}),
    ObjectiveKind.TSDAE: frozenset({ExampleKind.TEXTS}),
    ObjectiveKind.TEACHER: frozenset({ExampleKind.TEXTS, ExampleKind.PAIRS, ExampleKind.TUPLES}),
}

# What a set of one kind can be turned into without making anything up (see `…sentence_examples.conversion`).
_CONVERTED: Final[Mapping[ExampleKind, tuple[ExampleKind, ...]]] = {
    ExampleKind.NLI: (ExampleKind.TUPLES, ExampleKind.TEXTS),
    ExampleKind.SCORED: (ExampleKind.TEXTS,),
    ExampleKind.LABELLED: (ExampleKind.PAIRS, ExampleKind.TEXTS),
    ExampleKind.PAIRS: (ExampleKind.TEXTS,),
    ExampleKind.TUPLES: (ExampleKind.TEXTS,),
    ExampleKind.TEXTS: (),
}


def kind_to_learn_from(objective: ObjectiveKind, kind: ExampleKind) -> ExampleKind:
    """Say which kind a set of `kind` has to be turned into for the objective: its own when that is fine.

    NLI becomes triplets for ranking (the entailed and the contradicted hypothesis of a premise), labelled
    pairs become the pairs that mean the same, and all become single texts for what needs no more. A teacher
    takes pairs and tuples for translations; of labelled and scored pairs it teaches each text by itself.
    Raises BadInputError, naming the objectives that fit, when the data do not hold what the objective needs.
    """
    wanted = EXAMPLE_KINDS[objective]
    if objective is ObjectiveKind.TEACHER and kind.is_labelled:
        return ExampleKind.TEXTS  # what is marked as different must not be given one vector
    for possible in (kind, *_CONVERTED[kind]):
        if possible in wanted:
            return possible
    fitting = [
        other for other in ObjectiveKind if not EXAMPLE_KINDS[other].isdisjoint({kind, *_CONVERTED[kind]})
    ]
    raise BadInputError(
        f"the objective {objective} learns from {_listed(wanted)}, and the data are {kind}. "
        f"For {kind} take one of: {', '.join(fitting)}"
    )


def usual_objective_kind(kind: ExampleKind) -> ObjectiveKind:
    """Name the objective that is the best known start for a kind of data.

    SCORED: CoSENT, which only asks for the scores' order. NLI: ranking over its triplets rather than the
    softmax objective of the SBERT paper, as vectors that tell a hypothesis from all others of the batch come
    out better for similarity and search than those that tell three labels; the softmax stays one word away.
    """
    return _USUAL[kind]


_USUAL: Final[Mapping[ExampleKind, ObjectiveKind]] = {
    ExampleKind.NLI: ObjectiveKind.RANKING,
    ExampleKind.SCORED: ObjectiveKind.COSENT,
    ExampleKind.LABELLED: ObjectiveKind.CONTRASTIVE,
    ExampleKind.PAIRS: ObjectiveKind.RANKING,
    ExampleKind.TUPLES: ObjectiveKind.RANKING,
    ExampleKind.TEXTS: ObjectiveKind.SIMCSE,
}


def _listed(kinds: frozenset[ExampleKind]) -> str:
    return " or ".join(kind for kind in ExampleKind if kind in kinds)
