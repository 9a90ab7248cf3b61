"""The folder that the training of a sentence encoder fills."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sentence_transformers import CrossEncoder, SentenceTransformer

from nearsay.data.document import JsonValue
from nearsay.data.report import as_json
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LEARNED_FILE, LearnedTexts
from nearsay.training.encoder.weights import combined_sha256
from nearsay.training.evaluation.judged.comparison import encoder_size
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.model_card import ModelCard, with_step
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, TrainingSet
from nearsay.training.sentence.fine_tuning.step_texts import column_kinds
from nearsay.training.sentence.finished_run import finish_run
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.refusal import checked_weights
from nearsay.training.sentence.source import find_encoder, hub_name
from nearsay.training.sentence.text_encoder import TextKind


@dataclass(frozen=True, slots=True)
class ModelText:
    """The text of the model card for a kind of model."""

    what: str  # "sentence encoder"
    summary: str  # what it does, after "A sentence encoder: "
    tags: tuple[str, ...]
    usage: str  # Python; {name} is the folder's
    limits: tuple[str, ...]


LIMIT: Final = "It was measured on text of one kind; on another kind it may be worse than its base."
ENCODER_TEXT: Final = ModelText(
    what="sentence encoder",
    summary="a text becomes a vector of {dimension} dimensions, and texts that say nearly the same become "
    "vectors that are near.",
    tags=("sentence-transformers", "sentence-similarity", "nearsay"),
    usage="""
from nearsay.training.sentence.encoder import Encoder

vectors = Encoder.load("{name}").encode(["The cat sleeps.", "A cat is asleep."])
""",
    limits=(
        "It holds for nearly the same what its training examples held for it, with their errors.",
        LIMIT,
    ),
)


def told_sets(sets: Sequence[TrainingSet], prompts: Mapping[TextKind, str]) -> list[JsonValue]:
    """The sets as recorded in a run's config.json; `prompts`: of the trained encoder."""
    return [
        {
            "name": one.examples.name,
            "kind": str(one.examples.kind),
            "rows": len(one.examples),
            "sha256": one.examples.sha256,
            "objective": one.objective.to_json(),
            "batch": one.batch,
            "guide": one.guide,
            "guide_sha256": guide_sha256(one.guide),
            **_told_prompts(one, prompts),
        }
        for one in sets
    ]


def _told_prompts(one: TrainingSet, prompts: Mapping[TextKind, str]) -> dict[str, JsonValue]:
    """Tell that all columns have one prompt where the first had the query's in runs of earlier versions."""
    examples, objective = one.examples, one.objective.kind
    before, now = (column_kinds(examples, objective, symmetric=it)[0] for it in (False, one.symmetric))
    if before is now:
        return {}
    guides = [] if one.guide is None else [prompts_of(find_encoder(one.guide).folder)]
    differ = any(each[before] != each[now] for each in (prompts, *guides))
    return {"prompts": "the passage's for all"} if differ else {}


def told_judged(judged: JudgedSet) -> dict[str, JsonValue]:
    """A judged set as recorded in a run's config.json; the hash is of its texts and judgements."""
    content = hashlib.sha256()
    for piece in judged.content():
        content.update(f"{piece!r}\n".encode("utf-8", "surrogatepass"))
    return {
        "name": judged.name,
        "kind": str(judged.kind),
        "items": len(judged),
        "sha256": content.hexdigest(),
    }


def learned_from(sets: Sequence[TrainingSet]) -> str:
    """What an encoder was trained on, in a line."""
    return ", ".join(learned_by(one.examples, one.objective.kind) for one in sets)


def learned_by(examples: SentenceExamples, loss: str) -> str:
    """What was learned from a set, and with which loss, in a line."""
    return f"{examples.said} of {examples.name} by {loss} (sha256 {examples.sha256[:12]})"


def guide_sha256(guide: str | None) -> str | None:
    """The hash of a guide's weights; raises like `refuse_unsafe`, before a run begins."""
    if guide is None:
        return None
    encoder_size(guide)  # refuses damaged weights
    return combined_sha256(checked_weights(find_encoder(guide)))


def finish_encoder(
    run: RunFolder,
    encoder: SentenceTransformer | CrossEncoder,
    result: SentenceResult,
    *,
    learned: str,
    base: Sequence[str],
    settings: dict[str, JsonValue],
    texts: LearnedTexts,
    text: ModelText = ENCODER_TEXT,
) -> None:
    """Turn `OUT` into the encoder, in sentence-transformers' format, with its lineage, card and plot.

    learned:  what it was trained on and how, in a line
    base:     the lineage of its base
    settings: what determined the run's numbers
    texts:    the record of texts that it and its base were trained on
    text:     the card's text for this kind of model
    """
    name = run.out.resolve().name
    told: dict[str, JsonValue] = {
        "steps": result.steps,
        "seconds": round(result.seconds, 1),
        "rows_per_second": round(result.pairs_per_second, 1),
        "stopped_early": result.stopped_early,
        "training": dict(result.training),
        "dev": dict(result.dev),
        "base_dev": dict(result.base_dev),
        "evaluations": [as_json(change) for change in result.changes],
    }
    run.write_run_json(LEARNED_FILE, texts.to_json())
    source = str(settings["base"])
    card = ModelCard(
        title=name,
        summary=f"A {text.what}: {text.summary.format(dimension=_dimension(encoder))}",
        library="sentence-transformers",
        tags=text.tags,
        usage=text.usage.format(name=name),
        figures=_figures(result),
        figures_note=_figures_note(result),
        lineage=with_step(base, f"{text.what}: {learned}"),
        settings={
            **{key: value for key, value in settings.items() if not isinstance(value, dict | list)},
            "base": Path(source).name if Path(source).is_absolute() else source,  # no folder of this machine
        },
        limits=text.limits,
        base=hub_name(source),
        results=[(change.set, change.figure, change.after) for change in result.changes],
    )

    def save(folder: Path) -> None:
        encoder.save(str(folder), create_model_card=False)

    finish_run(run, save, card, told, kind=text.what)


def _dimension(encoder: SentenceTransformer | CrossEncoder) -> int | None:
    return encoder.get_embedding_dimension() if isinstance(encoder, SentenceTransformer) else None


def _figures(result: SentenceResult) -> dict[str, float]:
    if result.changes:
        return {
            f"{change.set}, {change.figure}, {when}": reached
            for change in result.changes
            for when, reached in (("before", change.before), ("after", change.after))
        }
    return dict(result.dev or result.training)


def _figures_note(result: SentenceResult) -> str:
    if result.changes:
        return "Before and after this training; run/result.json has the intervals of the differences."
    if result.dev:
        return "On the dev set, which chose the weights: a little too good."
    return "On the training examples, over the last steps of the run: too good."
