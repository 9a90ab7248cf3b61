"""What a run does."""

from collections.abc import Sequence
from enum import StrEnum

__all__ = ["RunKind"]


class RunKind(StrEnum):
    """The work of a run, by which a page sorts and draws it."""

    ADD = "add"
    REMOVE = "remove"
    REBUILD = "rebuild"
    PROMOTE = "promote"
    ROLLBACK = "rollback"
    TUNE = "tune"
    COMPACT = "compact"
    EXPORT = "export"
    DEMO = "demo"
    CLUSTER = "cluster"
    MAP = "map"
    DUPLICATES = "duplicates"
    EXPLORE = "explore"  # what else there is to explore: pairs, outliers, change over time
    INSIDE = "inside"  # a sample of tokens, as a layer of an encoder has them
    VOCABULARY = "vocabulary"
    PRETRAIN = "pretrain"
    SENTENCE = "sentence"
    DISTIL = "distil"
    NEGATIVES = "negatives"
    HEAD = "head"  # a classifier, a tagger or a reader
    TRAIN = "train"  # what else there is to train: average, reduce, static
    EVALUATE = "evaluate"
    ENCODE = "encode"
    DOCTOR = "doctor"
    OTHER = "other"

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "RunKind":
        """The kind of run that a command line is: `["documents", "add", "papers", …]` is an ADD."""
        group, command = [*arguments, "", ""][:2]
        fallback = {"explore": cls.EXPLORE, "train": cls.TRAIN, "evaluate": cls.EVALUATE}
        single = {"demo": cls.DEMO, "doctor": cls.DOCTOR}
        named = _COMMANDS.get((group, command)) or fallback.get(group) or single.get(group)
        return named or cls.OTHER


_COMMANDS = {
    ("documents", "add"): RunKind.ADD,
    ("documents", "remove"): RunKind.REMOVE,
    ("collections", "remove"): RunKind.REMOVE,
    ("index", "rebuild"): RunKind.REBUILD,
    ("index", "promote"): RunKind.PROMOTE,
    ("index", "rollback"): RunKind.ROLLBACK,
    ("index", "tune"): RunKind.TUNE,
    ("index", "optimize"): RunKind.TUNE,
    ("index", "compact"): RunKind.COMPACT,
    ("documents", "export"): RunKind.EXPORT,
    ("explore", "clusters"): RunKind.CLUSTER,
    ("explore", "map"): RunKind.MAP,
    ("explore", "duplicates"): RunKind.DUPLICATES,
    ("encoders", "encode"): RunKind.ENCODE,
    ("encoders", "inside"): RunKind.INSIDE,
    ("train", "vocabulary"): RunKind.VOCABULARY,
    ("train", "pretrain"): RunKind.PRETRAIN,
    ("train", "sentence"): RunKind.SENTENCE,
    ("train", "adapt"): RunKind.SENTENCE,
    ("train", "distill"): RunKind.DISTIL,
    ("train", "negatives"): RunKind.NEGATIVES,
    ("train", "classifier"): RunKind.HEAD,
    ("train", "tagger"): RunKind.HEAD,
    ("train", "reader"): RunKind.HEAD,
}
