"""The model card that is saved beside a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearsay.data.document import JsonValue

__all__ = ["ModelCard"]


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

    def markdown(self) -> str:
        """Give the card, with the front matter that hubs read."""
        tags = "".join(f"- {tag}\n" for tag in self.tags)
        figures = "".join(f"| {_said(name)} | {value:.4f} |\n" for name, value in self.figures.items())
        settings = "".join(f"| {_said(name)} | {_cell(value)} |\n" for name, value in self.settings.items())
        steps = "".join(f"{number}. {step}\n" for number, step in enumerate(self.lineage, 1))
        limits = "".join(f"- {limit}\n" for limit in self.limits)
        parts = [
            f"---\nlibrary_name: {self.library}\ntags:\n{tags}---\n",
            f"# {self.title}\n\n{self.summary}\n",
            f"```python\n{self.usage.strip()}\n```\n",
            f"## Measured\n\n{self.figures_note}\n\n| | |\n|---|---|\n{figures}" if figures else "",
            f"## Where it comes from\n\n{steps}",
            f"## How it was trained\n\n| setting | value |\n|---|---|\n{settings}",
            f"## Limits\n\n{limits}" if limits else "",
        ]
        return "\n".join(part for part in parts if part)


def _said(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: JsonValue) -> str:
    return str(value).replace("|", r"\|").replace("\n", " ")
