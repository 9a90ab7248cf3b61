"""What an encoder wants put before a text."""

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.text_encoder import TextKind

__all__ = ["prompts_of"]

# The names that sentence-transformers' encode_query and encode_document look for, in their order.
_NAMES = {TextKind.QUERY: ("query",), TextKind.PASSAGE: ("document", "passage", "corpus")}


def prompts_of(folder: EncoderFolder) -> dict[TextKind, str]:
    """Give the prompt for each kind of text, "" where the encoder's settings define none.

    A prompt of another name, and the default prompt, are for other tasks and are not used.
    """
    stored = folder.settings().get("prompts")
    return {kind: _first(stored, names, folder) for kind, names in _NAMES.items()}


def _first(stored: JsonValue, names: tuple[str, ...], folder: EncoderFolder) -> str:
    if stored is None:
        return ""
    if not isinstance(stored, dict):
        raise NearsayError(
            f"the prompts of the encoder in {folder.path} are not a JSON object. Save it again"
        )
    for name in names:
        prompt = stored.get(name)
        if isinstance(prompt, str) and prompt:
            return prompt
    return ""
