"""The tokenizer that was saved with a BERT, and whether its vocabulary fits the weights."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, normalizers
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError, first_line
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.quiet import quiet_libraries

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_WORD_EMBEDDINGS = "word_embeddings.weight"


def read_tokenizer(folder: EncoderFolder) -> PreTrainedTokenizerBase:
    """Read the tokenizer of a folder's transformer, without truncation and padding.

    Raises BadInputError if there is none (transformers alone would make up one with five tokens), if it
    cannot be read, or if it is not a fast one.
    """
    path = folder.transformer_folder()
    if not any(file for pattern in _TOKENIZER_FILES for file in path.glob(pattern)):
        raise BadInputError(
            f"{path} holds no vocabulary (tokenizer.json or vocab.txt). Copy the tokenizer's files there"
        )
    try:
        with quiet_libraries():
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise BadInputError(
            f"the tokenizer in {path} cannot be loaded ({first_line(error)}). "
            "Copy the tokenizer's files again"
        ) from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not isinstance(backend, Tokenizer):
        raise BadInputError(
            f"the tokenizer in {path} is a {type(tokenizer).__name__}, which has no fast form. "
            "Save a tokenizer.json beside the weights"
        )
    backend.no_truncation()
    backend.no_padding()
    if folder.length_settings().get("do_lower_case"):  # sentence-transformers lowers the text itself then
        _lower(tokenizer, backend)
    return tokenizer


def _lower(tokenizer: PreTrainedTokenizerBase, backend: Tokenizer) -> None:
    """Have a tokenizer lower its texts, in place; BERT's does so, too, once it is saved and read again.

    transformers rebuilds BERT's normalizer from the tokenizer's settings, whatever tokenizer.json says.
    """
    own = backend.normalizer
    if isinstance(own, normalizers.BertNormalizer):
        # None: as letters are lowered, and these are lowered without that
        strips = own.lowercase if own.strip_accents is None else own.strip_accents
        own.lowercase, own.strip_accents = True, strips
        backend.normalizer = own
        for name, value in {"do_lower_case": True, "strip_accents": strips}.items():
            tokenizer.init_kwargs[name] = value
            setattr(tokenizer, name, value)  # which is saved, where there is one
    else:
        steps = [own] if own is not None else []
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])


def require_fitting_vocabulary(path: Path, config: PreTrainedConfig, tokenizer: Tokenizer) -> None:
    """Raise BadInputError unless every token number has a row in the word embeddings.

    path: the transformer's folder; only the shapes of its weights are read
    """
    rows = _embedding_rows(path)
    if rows is not None and rows != config.vocab_size:
        raise BadInputError(
            f"config.json in {path} tells of a vocabulary of {config.vocab_size:,} tokens, its weights hold "
            f"{rows:,}. Take both files from one model"
        )
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= config.vocab_size:
        raise BadInputError(
            f"the vocabulary does not fit the weights: the tokenizer in {path} numbers its tokens up to "
            f"{highest:,}, and the weights end at {config.vocab_size - 1:,} ({config.vocab_size:,} tokens). "
            "Take the tokenizer files of the model that the weights are from"
        )


def _embedding_rows(path: Path) -> int | None:
    """How many tokens the weights hold; None when no tensor has the usual name."""
    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="numpy") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - a reader, not a dict
                    if name.endswith(_WORD_EMBEDDINGS):
                        return int(tensors.get_slice(name).get_shape()[0])
        except SafetensorError as error:
            raise BadInputError(
                f"the weights {file} are damaged ({first_line(error)}). Copy or download them again"
            ) from error
    return None
