"""F1 of named entities: whole spans with their types, as conlleval and seqeval count them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from nearsay.data.errors import BadInputError
from nearsay.data.report import Report, column
from nearsay.training.evaluation.label_metrics import require_alike


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A span of a sentence's words and its type."""

    start: int  # its first word, from 0
    end: int  # the word after its last
    type: str


@dataclass(frozen=True, slots=True)
class EntityFigures:
    """Precision, recall and F1, 0 to 1, of one type or of all; 0 where there is nothing to divide by."""

    precision: float = field(metadata=column("precision", ".4f"))  # right entities of those predicted
    recall: float = field(metadata=column("recall", ".4f"))  # right entities of those that are there
    f1: float = field(metadata=column("F1", ".4f"))
    gold: int = field(metadata=column("entities"))  # that are there
    predicted: int = field(metadata=column("predicted"))
    right: int = field(metadata=column("right"))  # same words, same type


@dataclass(frozen=True, slots=True)
class EntityReport(Report):
    """What a tagger reached."""

    REPORT: ClassVar = "entities measured"

    overall: EntityFigures  # micro-averaged, over all entities: the field's figure
    types: dict[str, EntityFigures]  # by type, in alphabetical order
    tag_accuracy: float  # share of words with the right tag, O included; flatters, since most words are O


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that a sentence's BIO tags mark, in order.

    An entity begins at every B-, and at an I- that continues no entity of its type (after O, at the start, or
    after another type): conlleval's rule, and seqeval's without `mode="strict"`. BadInputError for a tag that
    is not O, B-type or I-type.
    """
    found: list[Entity] = []
    start, kind = 0, None
    for place, tag in enumerate(tags):
        mark, _, type_ = tag.partition("-")
        if tag != "O" and (mark not in {"B", "I"} or not type_):
            raise BadInputError(f"the tag {tag!r} is not O, B-type or I-type; convert the tags to BIO")
        goes_on = mark == "I" and type_ == kind
        if kind is not None and not goes_on:
            found.append(Entity(start, place, kind))
        if mark == "O":
            kind = None
        elif not goes_on:
            start, kind = place, type_
    if kind is not None:
        found.append(Entity(start, len(tags), kind))
    return found


def entity_f1(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityReport:
    """Compare the entities of tagged sentences.

    gold, predicted: the tags of each sentence's words; of one length for one sentence
    An entity is right when its words and its type are those of a gold entity. Raises BadInputError for lists
    of unlike length and for tags that are not BIO.

    precision = right / predicted, recall = right / gold, F1 = 2 · right / (predicted + gold)
    Tjong Kim Sang & De Meulder 2003, section 2.3, https://aclanthology.org/W03-0419/;
    https://github.com/chakki-works/seqeval
    """
    require_alike(gold, predicted)
    there: Counter[str] = Counter()
    said: Counter[str] = Counter()
    right: Counter[str] = Counter()
    same = words = 0
    for number, (truth, guess) in enumerate(zip(gold, predicted, strict=True), 1):
        if len(truth) != len(guess):
            raise BadInputError(
                f"sentence {number} has {len(truth)} tags and {len(guess)} predicted ones; "
                "give one for each word"
            )
        same += sum(a == b for a, b in zip(truth, guess, strict=True))
        words += len(truth)
        true_entities, said_entities = set(entities(truth)), set(entities(guess))
        there.update(entity.type for entity in true_entities)
        said.update(entity.type for entity in said_entities)
        right.update(entity.type for entity in true_entities & said_entities)
    return EntityReport(
        overall=_figures(there.total(), said.total(), right.total()),
        types={type_: _figures(there[type_], said[type_], right[type_]) for type_ in sorted({*there, *said})},
        tag_accuracy=same / words if words else 0.0,
    )


def _figures(gold: int, predicted: int, right: int) -> EntityFigures:
    return EntityFigures(
        precision=right / predicted if predicted else 0.0,
        recall=right / gold if gold else 0.0,
        f1=2 * right / (predicted + gold) if predicted + gold else 0.0,
        gold=gold,
        predicted=predicted,
        right=right,
    )
