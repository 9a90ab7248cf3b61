"""What scores pairs of texts: cross-encoders, which read both together, and encoders by their cosine."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from tokenizers import Encoding, Tokenizer
from torch.nn import functional

from nearsay.data.errors import BadInputError, NearsayError, NotFiniteError, first_line
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, choose_hardware, computing_in
from nearsay.training.encoder.weights import require_complete, take_pairs
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.loading import loaded_by
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import names_code, refuse_unsafe
from nearsay.training.sentence.remembering import Remembering
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder

_BATCH_PAIRS = 32
_WINDOW_PAIRS = 16_384


class PairTokens:
    """Cuts pairs into a cross-encoder's tokens, the longer text first, as transformers does.

    The model's default prompt stands before the first one, as sentence-transformers' `predict` puts it there.
    It owns its copy of the tokenizer: another thread may use the model's.
    """

    def __init__(self, model: CrossEncoder, name: str) -> None:
        """`name`: what messages call the model."""
        backend = getattr(model.tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise NearsayError(
                f"the tokenizer of {name} is a {type(model.tokenizer).__name__}, which has no fast form. "
                "Save a tokenizer.json beside its weights"
            )
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if model.max_seq_length is not None:
            self._tokenizer.enable_truncation(model.max_seq_length)
        self._prompt = model.prompts.get(model.default_prompt_name or "") or ""

    def encodings(self, pairs: Sequence[tuple[str, str]]) -> list[Encoding]:
        """Return each pair's tokens: `ids`, `type_ids`, and `overflowing` where it was cut."""
        return self._tokenizer.encode_batch_fast([(self._prompt + first, second) for first, second in pairs])

    def cut(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Count the pairs that are cut at the length limit."""
        left, cut = iter(pairs), 0
        while window := list(islice(left, _WINDOW_PAIRS)):
            cut += sum(bool(one.overflowing) for one in self.encodings(window))
        return cut


class Judge(Protocol):
    """Says how well texts fit anchors."""

    @property
    def name(self) -> str:
        """What people call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Score each (anchor, text), (pairs,); higher fits better, on a scale of the judge's own."""


class CrossEncoderJudge:
    """Scores pairs with a sentence-transformers cross-encoder of one output; make one with `load`.

    The score is the model's own: for most a probability from 0 to 1, for some a logit.
    """

    def __init__(self, name: str, model: CrossEncoder, *, precision: Precision | None = None) -> None:
        """Take a model that is safe and complete, as `load` sees to, or one that is being trained.

        precision: a resolved one; None: whatever autocast says around it, as in training
        """
        self.name = name
        self.model = model
        self._precision = precision

    @classmethod
    def load(
        cls,
        name_or_folder: str | Path,
        *,
        device: str | None = None,
        precision: Precision = Precision.FLOAT32,
    ) -> "CrossEncoderJudge":
        """Load a cross-encoder from a folder or a hub without running code of its own.

        device:    cpu, cuda, cuda:1, mps; None for the best there is
        precision: of its matrix products; weights and scores are float32
        Raises NearsayError when there is none, it cannot be loaded, lacks weights or gives several scores a
        pair, EncoderRefusedError when it carries code.
        """
        source = find_encoder(name_or_folder, cross_encoder=True)
        refuse_unsafe(source.folder)
        chosen, resolved = choose_hardware(device, precision)
        return cls(source.name, load_cross_encoder(source.folder, chosen), precision=resolved)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the score of each (anchor, text), (pairs,).

        Pairs that are too long for the model are cut; `cut` counts them. NotFiniteError for a score that is
        no number.
        """
        if not pairs:
            return np.empty(0, dtype=np.float32)
        around: AbstractContextManager[None] = nullcontext()
        if self._precision is not None:
            around = computing_in(self._precision, str(self.model.device))
        with around:
            scores = np.asarray(
                self.model.predict(list(pairs), batch_size=_BATCH_PAIRS, show_progress_bar=False),
                dtype=np.float32,
            )
        if not np.isfinite(scores).all():
            raise NotFiniteError(
                f"the cross-encoder {self.name!r} gave {int((~np.isfinite(scores)).sum())} of {len(pairs)} "
                "pairs a score that is no number: its weights are damaged. Copy or download it again"
            )
        return scores

    def cut(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Count the pairs that are cut at the length limit."""
        return self._tokens.cut(pairs)

    @cached_property
    def _tokens(self) -> PairTokens:
        return PairTokens(self.model, self.name)


class EncoderJudge:
    """An encoder: its score is the cosine similarity of anchor (as a query) and text (as a passage).

    Every text's vector is kept, since a text is a candidate of several anchors: 4 bytes a number.

    Solatorio 2024, GISTEmbed, section 3, https://arxiv.org/abs/2402.16829
    """

    def __init__(self, encoder: VectorEncoder) -> None:
        """Nothing is encoded yet."""
        self.name = encoder.name
        self._encoder = Remembering(encoder)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return each pair's cosine similarity, (pairs,)."""
        anchors = self._encoder.encode([anchor for anchor, _ in pairs], kind=TextKind.QUERY)
        texts = self._encoder.encode([text for _, text in pairs])
        scores: NDArray[np.float32] = np.vecdot(anchors, texts)
        return scores


def load_judge(
    name_or_folder: str | Path, *, device: str | None = None, precision: Precision = Precision.FLOAT32
) -> Judge:
    """Load what scores pairs: a cross-encoder, or an encoder, whose score is the cosine.

    Which one it is, its config.json says. Raises NearsayError when it cannot be loaded.
    """
    if find_encoder(name_or_folder).folder.is_cross_encoder:
        return CrossEncoderJudge.load(name_or_folder, device=device, precision=precision)
    return EncoderJudge(Encoder.load(name_or_folder, device=device, precision=precision))


def load_cross_encoder(folder: EncoderFolder, device: str) -> CrossEncoder:
    """Load a cross-encoder of one score in float32; the folder must have passed `refuse_unsafe`.

    Raises NearsayError when the folder holds something else, lacks weights or cannot be loaded.
    """
    if not folder.is_cross_encoder:
        raise NearsayError(
            f"{folder.path} is no cross-encoder: its config.json names the architecture "
            f"{folder.architecture()}, not one that ends with ForSequenceClassification. Name the "
            "folder of a cross-encoder; nearsay train cross-encoder makes one"
        )
    model: CrossEncoder = loaded_by(CrossEncoder, folder, device, what="cross-encoder")
    if model.num_labels != 1:
        raise NearsayError(
            f"the cross-encoder in {folder.path} gives {model.num_labels} scores a pair, and a judge gives "
            "one. Name one that was trained to score or rerank pairs"
        )
    transformer = cast("Transformer", model[0])
    with quiet_libraries():
        require_complete(folder, transformer.auto_model, exactly=names_code(folder), pooler=True)
    if names_code(folder):
        del transformer.auto_model.config.auto_map  # what is made of it names no code
    score_in_float32(model)
    pad_without_effect(model, folder)
    take_pairs(model)
    model.eval()
    if "message" in transformer.modality_config:
        _require_pairs_in_template(model, folder)
    return model


def _require_pairs_in_template(model: CrossEncoder, folder: EncoderFolder) -> None:
    """Raise NearsayError for a chat template that leaves the query or the document out."""
    from jinja2 import TemplateError  # of templates that refuse a role

    try:
        with quiet_libraries():
            model.predict([("query", "document")], show_progress_bar=False)
    except (ValueError, TemplateError) as error:
        raise NearsayError(
            f"the chat template of the cross-encoder in {folder.path} takes no pair of query and document "
            f"({first_line(error)}). Write one that renders both roles, or take message out of "
            "modality_config in its sentence_bert_config.json, so that pairs are read as plain text"
        ) from error


def pad_without_effect(model: CrossEncoder, folder: EncoderFolder) -> None:
    """Pad pairs so that no score depends on it, in place; BadInputError where nothing says by which token.

    It goes by the configuration's token, which a decoder's head leaves out when it looks for the last one,
    and on the right: on the left, absolute positions would count it.
    """
    config, tokenizer = cast("Transformer", model[0]).auto_model.config.get_text_config(), model.tokenizer
    if config.pad_token_id in range(len(tokenizer)):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(config.pad_token_id)
    elif tokenizer.pad_token_id is not None:
        config.pad_token_id = tokenizer.pad_token_id
    else:
        raise BadInputError(
            f"neither config.json nor the tokenizer in {folder.path} names a padding token, so that pairs "
            "cannot be scored together. Set pad_token in its tokenizer_config.json"
        )
    # XLNet's positions are relative, and its head takes the last place whatever is there.
    tokenizer.padding_side = "left" if config.model_type == "xlnet" else "right"


class _ScoreLayer(torch.nn.Linear):
    """Gives its product in float32 under autocast, too."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        with torch.autocast(input.device.type, enabled=False):
            return functional.linear(input.float(), self.weight, self.bias)


def score_in_float32(model: CrossEncoder) -> None:
    """Let the layer that gives a pair's score compute in float32 whatever the precision, in place.

    It is small, and a score in bfloat16 has 8 bits: too few to rank passages by, of which many would tie.
    """
    for module in model.modules():
        if type(module) is torch.nn.Linear and module.out_features == 1:
            module.__class__ = _ScoreLayer
