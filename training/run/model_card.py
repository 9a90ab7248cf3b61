"""The model card that is saved beside a model."""

import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nearsay.data.document import JsonValue

LINEAGE_FILE: Final = "lineage.json"  # a JSON list of strings, oldest first

_TASKS: Final = ("fill-mask", "sentence-similarity", "text-ranking")  # tags that are pipelines of the hub


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a person who finds the folder wants to know; `markdown` is its README.md."""

    title: str
    summary: str  # what it is and does, in a sentence or two
    library: str  # that loads it: transformers, sentence-transformers
    tags: Sequence[str]
    usage: str  # Python that loads and uses it
    figures: Mapping[str, float]  # measured at the end of the run
    figures_note: str  # on what they were measured
    lineage: Sequence[str]  # oldest first
    settings: Mapping[str, JsonValue]
    limits: Sequence[str] = field(default=())
    base: str | None = None  # what it was made of, by its name on the hub
    results: Sequence[tuple[str, str, float]] = ()  # of the model: the set, the metric, the figure

    def save(self, folder: Path) -> None:
        """Write README.md and the lineage beside a model."""
        (folder / LINEAGE_FILE).write_text(json.dumps(self.lineage, indent=1, ensure_ascii=False), "utf-8")
        (folder / "README.md").write_text(self.markdown(), "utf-8")

    def markdown(self) -> str:
        """Return the card, with the front matter that hubs read."""
        from huggingface_hub import EvalResult, ModelCardData

        task = next((tag for tag in self.tags if tag in _TASKS), None)
        told: dict[str, Any] = {"base_model": self.base, "pipeline_tag": task}
        if self.results:
            told["model_name"] = self.title
            told["eval_results"] = [
                EvalResult(task or "", dataset, dataset, metric.replace(" ", "_"), figure, metric_name=metric)
                for dataset, metric, figure in self.results
            ]
        front = ModelCardData(library_name=self.library, tags=list(self.tags), **told).to_yaml()
        figures = "".join(f"| {_said(name)} | {value:.4f} |\n" for name, value in self.figures.items())
        settings = "".join(f"| {_said(name)} | {_cell(value)} |\n" for name, value in self.settings.items())
        steps = "".join(f"{number}. {step}\n" for number, step in enumerate(self.lineage, 1))
        limits = "".join(f"- {limit}\n" for limit in self.limits)
        parts = [
            f"---\n{front}\n---\n",
            f"# {self.title}\n\n{self.summary}\n",
            f"```python\n{self.usage.strip()}\n```\n",
            f"## Measured\n\n{self.figures_note}\n\n| | |\n|---|---|\n{figures}" if figures else "",
            f"## Where it comes from\n\n{steps}",
            f"## How it was trained\n\n| setting | value |\n|---|---|\n{settings}",
            f"## Limits\n\n{limits}" if limits else "",
        ]
        return "\n".join(part for part in parts if part)


def with_step(lineage: Iterable[str], step: str) -> list[str]:
    """Return the lineage with one more step, which this version of nearsay took."""
    return [*lineage, f"{step}, nearsay {importlib.metadata.version('nearsay')}"]


def _said(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: JsonValue) -> str:
    return str(value).replace("|", r"\|").replace("\n", " ")
