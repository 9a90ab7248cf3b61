"""The model card of a pretrained BERT."""

from collections.abc import Mapping, Sequence

from transformers import BertConfig

from nearsay.data.document import JsonValue
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.training.run.loop import TrainingResult
from nearsay.training.run.model_card import ModelCard

__all__ = ["pretraining_card"]

_HELD_OUT = "On text held out from training."
_TRAINED_ON = "On the training text, over the last steps of the run."
_USAGE = """
from transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForMaskedLM.from_pretrained("{name}")
"""


def pretraining_card(
    name: str,
    config: BertConfig,
    settings: Mapping[str, JsonValue],
    result: TrainingResult,
    text: PreparedText,
    lineage: Sequence[str],
) -> ModelCard:
    """Say what was trained, on how much text, and what came of it; file names of the text are left out."""
    left_out = {"texts", "dev", "model", "optimisation", "reading", "examples", "task", "start"}
    left_out |= {"environment", "resumed_with"}
    told = {key: value for key, value in settings.items() if key not in left_out}
    for part in ("examples", "optimisation", "environment"):
        inner = settings.get(part)
        told |= inner if isinstance(inner, dict) else {}
    told.pop("versions", None)
    return ModelCard(
        title=name,
        summary=(
            f"A BERT of {config.num_hidden_layers} layers, width {config.hidden_size} and "
            f"{config.vocab_size:,} WordPiece tokens, pretrained with masked words"
            f"{' and next sentences' if 'nsp_loss' in result.metrics else ''} on {text.tokens:,} tokens of "
            f"{text.documents:,} documents ({text.sentences:,} sentences), of which it saw {result.tokens:,}."
        ),
        library="transformers",
        tags=("bert", "fill-mask", "nearsay"),
        usage=_USAGE.format(name=name),
        figures=result.evaluation or result.metrics,
        figures_note=_HELD_OUT if result.evaluation else _TRAINED_ON,
        lineage=lineage,
        settings=told,
        limits=("It knows what its training text said, with the errors and prejudices of that.",),
    )
