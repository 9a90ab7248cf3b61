"""What stands on top of the transformer: how a sentence encoder is put together."""

from dataclasses import asdict

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.training.encoder.folder import EncoderFolder, position_limit
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling
from nearsay.training.sentence.loading import (
    is_static,
    load_model,
    require_fitting_pooling,
    require_seeing_cls,
    transformer_of,
)
from nearsay.training.sentence.prompts import SAVED_NAMES, other_prompts, prompts_of_model
from nearsay.training.sentence.text_encoder import TextKind

_SAVED_AS = {
    SentencePooling.CLS: "cls",
    SentencePooling.MEAN: "mean",
    SentencePooling.MAX: "max",
    SentencePooling.MEAN_SQRT_LENGTH: "mean_sqrt_len_tokens",
    SentencePooling.WEIGHTED: "weightedmean",
    SentencePooling.LAST: "lasttoken",
}


def build_encoder(
    folder: EncoderFolder, structure: EncoderStructure, *, device: str, seed: int
) -> SentenceTransformer:
    """Load a BERT or a sentence encoder in float32 and change its structure.

    folder: has passed `refuse_unsafe`
    seed:   of a new projection's weights

    With another pooling or dimension than the base's, its own projections are removed, because they were
    trained for the old ones. Raises NearsayError if it cannot be loaded, BadInputError if the structure does
    not fit.
    """
    base = load_model(folder, "cpu")
    if is_static(base):
        return _static(base, folder, structure, device)
    transformer = transformer_of(base, folder)
    require_fitting_pooling(base, folder)
    kept = list(base.children())[1:]
    pooling = next((module for module in kept if isinstance(module, Pooling)), None)
    if structure.pooling is not None and _mode(pooling) != _SAVED_AS[structure.pooling]:
        mode = _SAVED_AS[structure.pooling]
        if structure.pooling is SentencePooling.CLS:
            require_seeing_cls(transformer, folder)
        kept = [Pooling(transformer.get_embedding_dimension(), pooling_mode=mode)]
    prompts, default = _prompts(base, structure)
    if pooling is not None and not pooling.include_prompt and any(map(prompts.get, SAVED_NAMES.values())):
        raise BadInputError(
            f"the encoder in {folder.path} leaves its prompt out of the pooling, which is not "
            "trained here. Set include_prompt to true in its pooling's config.json"
        )
    if base.truncate_dim is not None:
        raise cut_base(folder, base.truncate_dim)
    normalised = isinstance(kept[-1], Normalize) if structure.normalise is None else structure.normalise
    kept = [module for module in kept if not isinstance(module, Normalize)]
    if structure.dimension is not None and _dimension(kept) != structure.dimension:
        kept = [module for module in kept if isinstance(module, Pooling)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            kept.append(Dense(_dimension(kept), structure.dimension, activation_function=torch.nn.Tanh()))
    if normalised:
        kept.append(Normalize())
    encoder = SentenceTransformer(
        modules=[transformer, *kept],
        device=device,
        prompts=prompts,
        default_prompt_name=default,
        similarity_fn_name=base.similarity_fn_name,
    )
    most = position_limit(transformer.auto_model.config)
    if structure.length is not None:
        if most is not None and structure.length > most:
            raise BadInputError(
                f"the length is {structure.length} tokens, and the encoder in {folder.path} takes at most "
                f"{most}, special tokens included. Give {most} or less"
            )
        encoder.max_seq_length = structure.length
    elif most is not None and (encoder.max_seq_length or 0) > most:
        encoder.max_seq_length = most  # its folder says more than it has positions for
    return encoder


def _static(
    base: SentenceTransformer, folder: EncoderFolder, structure: EncoderStructure, device: str
) -> SentenceTransformer:
    """A table of tokens: its vectors are their tokens' mean, and as long as its rows."""
    for name, asked in asdict(structure).items():
        if asked is not None and name not in {"normalise", "query_prompt", "passage_prompt"}:
            raise BadInputError(
                f"the encoder in {folder.path} is static, a vector for each token, and has no {name} to set. "
                f"Leave --{name} out, or begin with a BERT"
            )
    if base.truncate_dim is not None:
        raise cut_base(folder, base.truncate_dim)
    kept = [module for module in base.children() if not isinstance(module, Normalize)]
    if isinstance(base[-1], Normalize) if structure.normalise is None else structure.normalise:
        kept.append(Normalize())
    prompts, default = _prompts(base, structure)
    return SentenceTransformer(
        modules=kept,
        device=device,
        prompts=prompts,
        default_prompt_name=default,
        similarity_fn_name=base.similarity_fn_name,
    )


def _prompts(base: SentenceTransformer, structure: EncoderStructure) -> tuple[dict[str, str], str | None]:
    """The base's prompts, with those that the structure gives, under sentence-transformers' own names.

    With them the name of the one that its `encode` puts before every text: that of passages or queries which
    has the text of the base's own default, so that a plain text gets what it got, and what was trained.
    """
    given = {TextKind.QUERY: structure.query_prompt, TextKind.PASSAGE: structure.passage_prompt}
    used = prompts_of_model(base) | {kind: text for kind, text in given.items() if text is not None}
    saved = {SAVED_NAMES[kind]: text for kind, text in used.items()}
    plain = base.prompts.get(base.default_prompt_name or "")
    default = next((name for name in reversed(saved) if plain and saved[name] == plain), None)
    return other_prompts(base.prompts, used) | saved, default


def cut_base(folder: EncoderFolder, dimension: JsonValue) -> BadInputError:
    """The error for a base with truncated vectors (truncate_dim in its folder)."""
    return BadInputError(
        f"the encoder in {folder.path} keeps {dimension} dimensions of a vector, which training would undo. "
        "Train the encoder that it was cut from, and cut the result (nearsay train reduce)"
    )


def _mode(pooling: Pooling | None) -> str:
    if pooling is None:
        return ""
    mode = pooling.pooling_mode
    return mode if isinstance(mode, str) else "+".join(mode)


def _dimension(modules: list[torch.nn.Module]) -> int:
    for module in reversed(modules):
        if isinstance(module, Dense):
            return int(module.out_features)
        if isinstance(module, Pooling):
            return int(module.pooling_output_dimension)
    raise BadInputError("the base has no pooling. Name one, such as mean")
