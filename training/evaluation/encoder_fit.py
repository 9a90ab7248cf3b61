"""How well an encoder's tokenizer fits texts."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nearsay.training.bert.saved_tokenizer import read_tokenizer
from nearsay.training.evaluation.tokenizer_fit import TokenizerFit, new_vocabulary_config, tokenizer_fit
from nearsay.training.sentence.source import find_encoder

__all__ = ["encoder_fit"]


def encoder_fit(
    encoder: str | Path,
    texts: Iterable[str],
    *,
    lengths: Sequence[int] = (64, 128, 256, 512),
    new: bool = True,
    new_size: int | None = None,
    listener: Callable[[int], None] | None = None,
) -> TokenizerFit:
    """Measure how well the tokenizer of an encoder, a BERT or a vocabulary's folder fits texts.

    encoder: its name or folder; of a folder no weights are needed
    texts: iterated up to three times
    new: whether to compare with a new vocabulary of the same casing; `new_size`: its pieces, None = as many
    listener: is told how many texts have been measured

    Raises NearsayError when there is no such encoder or it has no fast tokenizer, BadInputError as
    `tokenizer_fit` does.
    """
    source = find_encoder(encoder)
    saved = read_tokenizer(source.folder)
    tokenizer = saved.backend_tokenizer
    unknown_id = saved.unk_token_id
    return tokenizer_fit(
        source.name,
        tokenizer,
        texts,
        unknown_id=unknown_id if isinstance(unknown_id, int) else None,
        lengths=lengths,
        new_vocabulary=new_vocabulary_config(tokenizer, new_size) if new else None,
        listener=listener,
    )
