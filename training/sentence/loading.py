"""From an encoder's folder to a sentence-transformers model, ready to run."""

import logging
from typing import TypeVar, cast

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.training.encoder.folder import EncoderFolder, position_limit
from nearsay.training.encoder.plain_encoder import table_limit
from nearsay.training.encoder.weights import require_complete
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import names_code

logger = logging.getLogger("nearsay")

_LONGEST_LIMIT = 1_000_000  # a tokenizer without a limit says 10**30
_DEFAULT_LIMIT = 512


def load_model(folder: EncoderFolder, device: str) -> SentenceTransformer:
    """Load the model in float32 for inference, without downloading anything or running the folder's code.

    The folder must have passed `refuse_unsafe`. Raises NearsayError if it cannot be loaded, lacks weights, or
    does not convert one text to one vector.
    """
    kind = folder.settings().get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise NearsayError(
            f"{folder.path} holds a {kind}, which does not give one vector a text. "
            "Name a sentence encoder's folder"
        )
    model = loaded_by(SentenceTransformer, folder, device, what="encoder")
    if not folder.modules():
        logger.warning(
            "%s has no modules.json: %s, and its vectors are not normalised", folder.path, _pooled(model)
        )
    if not is_static(model):
        transformer = transformer_of(model, folder)
        with quiet_libraries():
            require_complete(folder, transformer.auto_model, exactly=names_code(folder))
        if names_code(folder):
            del transformer.auto_model.config.auto_map  # what is made of it names no code
        take_plain_text(transformer, folder)
        # No text's vector depends on what it is padded for: absolute positions would count padding before it.
        model.tokenizer.padding_side = "right"
    return model.float().eval()


Model = TypeVar("Model", SentenceTransformer, CrossEncoder)


def loaded_by(kind: type[Model], folder: EncoderFolder, device: str, *, what: str) -> Model:
    """Load a folder with one of sentence-transformers' classes in float32, without its code.

    what: "encoder" or "cross-encoder", for the NearsayError if it cannot be loaded
    """
    try:
        with quiet_libraries():
            model: Model = kind(
                str(folder.path),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                # Else the weights' own format decides, and half-precision weights would be run as they are.
                model_kwargs={"dtype": torch.float32, "use_safetensors": True},
            )
    except Exception as error:
        raise NearsayError(
            f"the {what} in {folder.path} cannot be loaded ({first_line(error)}). "
            "Save, copy or download it again"
        ) from error
    return model


def is_static(model: SentenceTransformer) -> bool:
    """Whether it only looks up token embeddings, without a transformer or special tokens."""
    return isinstance(model[0], StaticEmbedding)


def transformer_of(model: SentenceTransformer, folder: EncoderFolder) -> Transformer:
    """The model's first module; NearsayError unless it is a transformer for plain text."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise NearsayError(
            f"the encoder in {folder.path} begins with a {type(first).__name__} module. "
            "Name one that begins with a Transformer"
        )
    if "text" not in first.modality_config or not set(first.modality_config) <= {"text", "message"}:
        raise NearsayError(
            f"the encoder in {folder.path} takes {', '.join(first.modality_config)}, not plain text alone. "
            "Name an encoder of plain text"
        )
    return cast("Transformer", first)


def require_seeing_cls(transformer: Transformer, folder: EncoderFolder) -> None:
    """Raise BadInputError for a causal BERT with [CLS] pooling, whose vectors are the same for all texts."""
    if getattr(transformer.auto_model.config, "is_decoder", False):
        raise BadInputError(
            f"the BERT in {folder.path} attends from left to right, so its [CLS] says nothing of a text. "
            "Begin with a BERT that attends both ways, or pool an encoder by mean or last"
        )


def require_fitting_pooling(model: SentenceTransformer, folder: EncoderFolder) -> None:
    """Raise BadInputError if the pooling's configured width differs from the transformer's.

    It would still pool, but later modules would have the configured width.
    """
    first, second = model[0], model[1] if len(model) > 1 else None
    if not isinstance(first, Transformer) or not isinstance(second, Pooling):
        return
    given, stated = first.get_embedding_dimension(), second.embedding_dimension
    if stated != given:
        raise BadInputError(
            f"the pooling of the encoder in {folder.path} is for {stated} dimensions, and its transformer "
            f"gives {given}. Set embedding_dimension in the pooling's config.json to {given}, or copy the "
            "folder again"
        )


def _pooled(model: SentenceTransformer) -> str:
    """What sentence-transformers chose for a plain folder, as a causal language model's or not."""
    last = getattr(model[-1], "pooling_mode", None) == "lasttoken"
    return "a text's last token is taken" if last else "its tokens are averaged (mean pooling)"


def take_plain_text(transformer: Transformer, folder: EncoderFolder) -> None:
    """Disable the chat template that sentence-transformers would apply to every text."""
    modalities = folder.length_settings().get("modality_config")
    if isinstance(modalities, dict) and "message" in modalities:
        logger.warning(
            "%s was saved to put texts into its chat template; here they are encoded as they are", folder.path
        )
    transformer.modality_config = {"text": transformer.modality_config["text"]}
    transformer.input_formatter.supported_modalities = ["text"]


def length_limit(model: SentenceTransformer, folder: EncoderFolder) -> int:
    """The maximum tokens of a text, with special ones: the folder's setting, if the positions allow it."""
    if is_static(model):
        return table_limit(folder, model.tokenizer)
    limit = model.max_seq_length
    positions = position_limit(transformer_of(model, folder).auto_model.config)
    if limit is not None and 0 < limit < _LONGEST_LIMIT:
        return min(int(limit), positions or int(limit))
    default = min(_DEFAULT_LIMIT, positions or _DEFAULT_LIMIT)
    logger.warning(
        "%s names no length limit, so texts are cut at %d tokens; max_seq_length in its "
        "sentence_bert_config.json sets another",
        folder.path,
        default,
    )
    return default


def gives_unit_vectors(model: SentenceTransformer) -> bool:
    """Whether vectors have unit length: the last module normalises, and nothing is truncated after it."""
    given = model.get_embedding_dimension()
    with model.truncate_embeddings(None):
        whole = model.get_embedding_dimension()
    return given == whole and isinstance(model[-1], Normalize)
