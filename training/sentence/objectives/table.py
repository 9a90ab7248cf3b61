"""The table of losses. The command line, recipes, the page's form and docs/add-a-loss.md are made from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, Self

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind

NLI, SCORED, LABELLED = ExampleKind.NLI, ExampleKind.SCORED, ExampleKind.LABELLED
PAIRS, TUPLES, TEXTS = ExampleKind.PAIRS, ExampleKind.TUPLES, ExampleKind.TEXTS
CLASSES = ExampleKind.CLASSES


class Distance(StrEnum):
    """How far apart two vectors are; lower is closer."""

    EUCLIDEAN = "euclidean"  # length of u - v; for a teacher, the mean of its squares
    MANHATTAN = "manhattan"  # sum of |u - v|
    COSINE = "cosine"  # 1 - cosine, from 0 to 2


@dataclass(frozen=True, slots=True)
class Loss:
    """One row: everything that is known of a loss before PyTorch is imported."""

    made_by: str  # "module:Class", the module in this folder; imported when the loss is made
    learns_from: tuple[ExampleKind, ...]  # as they are; `kind_to_learn_from` says what else can be turned
    help: str  # what it asks of the encoder, for people: "match the cosine similarity of a pair to its score"
    source: str  # address of the paper
    # Settings of ObjectiveConfig that it uses, with what is usual; None: as the data have it.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # Distances that it can measure by, the first one by default, and the usual margin with each.
    distances: Mapping[Distance, float | None] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # under which other libraries and papers have it; "Loss" may follow
    # Another encoder, whose vectors it needs; scores: a cross-encoder or encoder that scores the passages,
    # where the data have no scores.
    guide: Literal["", "guide", "teacher", "scores"] = ""
    passes: int = 1  # forward passes of each text in a step, each with its own dropout
    compares_labels: bool = False  # whether equal labels in all rows leave it nothing to learn
    compares_rows: bool = False  # whether a batch of one row without negatives leaves it nothing to learn
    matryoshka: bool = True  # whether it can be applied to the first dimensions of the vectors

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings that it uses."""
        margin = any(value is not None for value in self.distances.values())
        by_distance = ("distance",) * bool(self.distances) + ("margin",) * margin
        return (*self.defaults, *by_distance, *(("matryoshka",) if self.matryoshka else ()))

    def usual(self, setting: str) -> str:
        """Say what is taken for a setting if none is given, for people; empty: nothing."""
        if setting == "distance":
            return next(iter(self.distances), "")
        if setting == "margin" and self.distances:
            (_, margin), *rest = self.distances.items()
            other = [f"{_told(value)} with {name}" for name, value in rest if value != margin]
            return ", or ".join([_told(margin), *other])
        return _told(self.defaults[setting]) if setting in self.defaults else ""


class _Row(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...


class NamedRows(StrEnum):
    """Losses by name, each with its row, found by any of its other names: MNRL, CoSENTLoss, distillation."""

    def __new__(cls, name: str, row: _Row | None = None) -> Self:
        """Make the name with its row."""
        if row is None:
            raise TypeError(f"the loss {name} has no row")
        made = str.__new__(cls, name)
        made._value_ = name
        made.row = row  # type: ignore[attr-defined]  # subclasses say of what kind
        return made

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        wanted = plain_name(value) if isinstance(value, str) else ""
        return next(
            (one for one in cls if wanted in {plain_name(one), *map(plain_name, one.row.names)}),  # type: ignore[attr-defined]
            None,
        )


class ObjectiveKind(NamedRows):
    """The losses by name. Each has a module of its own, with its formula, and a row here."""

    row: Loss

    @property
    def loss(self) -> Loss:
        """Its row."""
        return self.row

    SOFTMAX = (
        "softmax",
        Loss(
            made_by="softmax:SoftmaxObjective",
            learns_from=(NLI, LABELLED),
            help="classify the label of a pair from both vectors",
            source="https://arxiv.org/abs/1908.10084",
            defaults={"concatenation": "u,v,|u-v|"},
            compares_labels=True,
        ),
    )
    COSINE = (
        "cosine",
        Loss(
            made_by="cosine:CosineObjective",
            learns_from=(SCORED, LABELLED),
            help="match the cosine similarity of a pair to its score",
            source="https://arxiv.org/abs/1908.10084",
            defaults={"score_range": None, "cosine_range": (0.0, 1.0)},
            names=("CosineSimilarity",),
        ),
    )
    TRIPLET = (
        "triplet",
        Loss(
            made_by="triplet:TripletObjective",
            learns_from=(TUPLES,),
            help="keep the positive closer to the anchor than the negative, by a margin",
            source="https://arxiv.org/abs/1908.10084",
            distances={Distance.EUCLIDEAN: 1.0, Distance.MANHATTAN: 1.0, Distance.COSINE: 0.5},
        ),
    )
    RANKING = (
        "ranking",
        Loss(
            made_by="ranking:RankingObjective",
            learns_from=(PAIRS, TUPLES),
            help="rank the positive above all other texts of the batch",
            source="https://arxiv.org/abs/1705.00652",
            defaults={"scale": 20.0, "symmetric": False},
            names=("MNRL", "MultipleNegativesRanking", "InfoNCE"),
            compares_rows=True,
        ),
    )
    COSENT = (
        "cosent",
        Loss(
            made_by="cosent:CosentObjective",
            learns_from=(SCORED, LABELLED),
            help="rank pairs by their scores",
            source="https://kexue.fm/archives/8847",
            defaults={"scale": 20.0},
            compares_labels=True,
            compares_rows=True,
        ),
    )
    ANGLE = (
        "angle",
        Loss(
            made_by="angle:AngleObjective",
            learns_from=(SCORED, LABELLED, TUPLES),
            help="rank pairs by their scores, measured by angles in complex space",
            source="https://arxiv.org/abs/2309.12871",
            defaults={"scale": 20.0},
            compares_labels=True,
            compares_rows=True,
        ),
    )
    CONTRASTIVE = (
        "contrastive",
        Loss(
            made_by="contrastive:ContrastiveObjective",
            learns_from=(LABELLED,),
            help="pull pairs with the same meaning together and push others a margin apart",
            source="http://yann.lecun.com/exdb/publis/pdf/hadsell-chopra-lecun-06.pdf",
            defaults={"online": False},
            distances={Distance.COSINE: 0.5, Distance.EUCLIDEAN: 0.5, Distance.MANHATTAN: 0.5},
        ),
    )
    GUIDED = (
        "guided",
        Loss(
            made_by="guided:GuidedObjective",
            learns_from=(PAIRS, TUPLES),
            help="rank the positive first, ignoring what a guide regards as false negatives",
            source="https://arxiv.org/abs/2402.16829",
            defaults={"scale": 100.0, "margin": 0.0},
            names=("GIST", "GISTEmbed"),
            guide="guide",
            compares_rows=True,
        ),
    )
    SIMCSE = (
        "simcse",
        Loss(
            made_by="simcse:SimcseObjective",
            learns_from=(TEXTS,),
            help="match two encodings of a text that differ only in dropout",
            source="https://arxiv.org/abs/2104.08821",
            defaults={"scale": 20.0},  # temperature 0.05
            passes=2,
            compares_rows=True,
        ),
    )
    SUPERVISED_CONTRASTIVE = (
        "supcon",
        Loss(
            made_by="supervised_contrastive:SupervisedContrastiveObjective",
            learns_from=(CLASSES,),
            help="pull texts of one class together and push those of other classes away",
            source="https://arxiv.org/abs/2004.11362",
            defaults={"scale": 20.0},
            names=("SupervisedContrastive",),
            compares_labels=True,
            compares_rows=True,
        ),
    )
    TSDAE = (
        "tsdae",
        Loss(
            made_by="denoising:DenoisingObjective",
            learns_from=(TEXTS,),
            help="reconstruct a text from its vector after words were deleted",
            source="https://arxiv.org/abs/2104.06979",
            defaults={"deletion": 0.6},
            names=("DenoisingAutoEncoder",),
            matryoshka=False,
        ),
    )
    TEACHER = (
        "teacher",
        Loss(
            made_by="teacher:TeacherObjective",
            learns_from=(TEXTS, PAIRS, TUPLES),
            help="reproduce the vectors of another encoder, also for translations",
            source="https://arxiv.org/abs/2004.09813",
            distances={Distance.COSINE: None, Distance.EUCLIDEAN: None},
            names=("distillation", "EmbedDistill", "MSE"),
            guide="teacher",
        ),
    )
    MARGIN_MSE = (
        "margin-mse",
        Loss(
            made_by="margin_mse:MarginMseObjective",
            learns_from=(TUPLES,),
            help="reproduce the margins between a teacher's scores of positives and negatives",
            source="https://arxiv.org/abs/2010.02666",
            defaults={"scale": None},
            guide="scores",
        ),
    )
    KL = (
        "kl",
        Loss(
            made_by="kl_divergence:KlDivergenceObjective",
            learns_from=(TUPLES,),
            help="reproduce the distribution of a teacher's scores over a query's passages",
            source="https://arxiv.org/abs/2010.11386",
            defaults={"scale": 20.0, "teacher_temperature": None},
            names=("DistillKLDiv", "KLDivergence"),
            guide="scores",
        ),
    )


# What a set of one kind can be turned into without making anything up (see `…sentence_examples.conversion`).
_CONVERTED: Final[Mapping[ExampleKind, tuple[ExampleKind, ...]]] = {
    NLI: (TUPLES, TEXTS),
    SCORED: (TEXTS,),
    LABELLED: (PAIRS, TEXTS),
    PAIRS: (TEXTS,),
    TUPLES: (TEXTS,),
    CLASSES: (TUPLES, TEXTS),
    TEXTS: (),
}
_USUAL: Final[Mapping[ExampleKind, ObjectiveKind]] = {
    NLI: ObjectiveKind.RANKING,
    SCORED: ObjectiveKind.COSENT,
    LABELLED: ObjectiveKind.CONTRASTIVE,
    PAIRS: ObjectiveKind.RANKING,
    TUPLES: ObjectiveKind.RANKING,
    CLASSES: ObjectiveKind.SUPERVISED_CONTRASTIVE,
    TEXTS: ObjectiveKind.SIMCSE,
}


def kind_to_learn_from(objective: ObjectiveKind, kind: ExampleKind) -> ExampleKind:
    """Say which kind a set of `kind` has to be turned into for the objective: its own when that is fine.

    NLI becomes triplets for ranking (the entailed and the contradicted hypothesis of a premise), and so do
    classes; labelled pairs become the pairs that mean the same, and all become single texts for what needs no
    more. A teacher takes pairs and tuples for translations; of labelled and scored pairs, and of classes, it
    teaches each text by itself.
    Raises BadInputError, naming the objectives that fit, when the data do not hold what the objective needs.
    """
    wanted = objective.loss.learns_from
    if objective.loss.guide == "teacher" and kind.is_labelled:
        return TEXTS  # what is marked as different must not be given one vector
    for possible in (kind, *_CONVERTED[kind]):
        if possible in wanted:
            return possible
    known = {kind, *_CONVERTED[kind]}
    fitting = [other for other in ObjectiveKind if not known.isdisjoint(other.loss.learns_from)]
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


def losses_table() -> str:
    """Write the table in Markdown, as docs/add-a-loss.md shows it."""
    lines = [
        "| `--objective` | asks the encoder to | learns from | settings | also called |",
        "|" + "---|" * 5,
    ]
    for kind in ObjectiveKind:
        loss = kind.loss
        used = [(name, loss.usual(name)) for name in loss.settings if name != "matryoshka"]
        settings = ", ".join(f"`{name}` {usual}" for name, usual in used).replace("|", "\\|")
        cells = (
            f"[{kind}]({loss.source})",
            loss.help,
            ", ".join(loss.learns_from),
            settings,
            ", ".join(loss.names),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(value: object) -> str:
    if value is None:
        return "the data's"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain_name(name: str) -> str:
    """Convert the name of a loss to the spelling that names are compared in."""
    return name.lower().replace("-", "").replace("_", "").removesuffix("loss")


def _listed(kinds: tuple[ExampleKind, ...]) -> str:
    return " or ".join(kind for kind in ExampleKind if kind in kinds)
