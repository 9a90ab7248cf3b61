"""A cross-encoder as the judge of candidates: it reads anchor and text together."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer

from nearsay.data.errors import NearsayError, first_line
from nearsay.training.encoder.device import choose_device
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.precision import Precision
from nearsay.training.encoder.weights import require_complete
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.negatives.judges import EncoderJudge, Judge
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import names_code, refuse_unsafe
from nearsay.training.sentence.source import find_encoder

__all__ = ["CrossEncoderJudge", "load_judge"]

_BATCH_PAIRS = 32
_CROSS_ENCODER = "ForSequenceClassification"


class CrossEncoderJudge:
    """Scores pairs with a sentence-transformers cross-encoder of one output; make one with `load`.

    The score is the model's own: for most a probability from 0 to 1, for some a logit.
    """

    def __init__(self, name: str, model: CrossEncoder) -> None:
        """`model`: one that is safe and complete, as `load` sees to."""
        self.name = name
        self._model = model

    @classmethod
    def load(cls, name_or_folder: str | Path, *, device: str | None = None) -> "CrossEncoderJudge":
        """Load a cross-encoder from a folder or a hub, in float32, without running code of its own.

        device: cpu, cuda, cuda:1, mps; None for the best there is
        Raises NearsayError when there is none, it cannot be loaded, lacks weights or gives several scores a
        pair, EncoderRefusedError when it carries code.
        """
        chosen = choose_device(device)
        source = find_encoder(name_or_folder, cross_encoder=True)
        refuse_unsafe(source.folder)
        _require_one_score(source.folder)
        model = _model(source.folder, chosen)
        return cls(source.name, model)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Give each (anchor, text) its score, (pairs,).

        Pairs that are too long for the model are cut by its tokenizer, which does not say so.
        NearsayError for a score that is no number.
        """
        if not pairs:
            return np.empty(0, dtype=np.float32)
        scores = np.asarray(
            self._model.predict(list(pairs), batch_size=_BATCH_PAIRS, show_progress_bar=False),
            dtype=np.float32,
        )
        if not np.isfinite(scores).all():
            raise NearsayError(
                f"the cross-encoder {self.name!r} gave {int((~np.isfinite(scores)).sum())} of {len(pairs)} "
                "pairs a score that is no number: its weights are damaged. Copy or download it again"
            )
        return scores


def load_judge(name_or_folder: str | Path, *, device: str | None = None) -> Judge:
    """Load what scores pairs: a cross-encoder, or an encoder, whose score is the cosine.

    Which one it is, its config.json says. Raises NearsayError when it cannot be loaded.
    """
    if _architecture(find_encoder(name_or_folder).folder).endswith(_CROSS_ENCODER):
        return CrossEncoderJudge.load(name_or_folder, device=device)
    return EncoderJudge(Encoder.load(name_or_folder, device=device, precision=Precision.FLOAT32))


def _architecture(folder: EncoderFolder) -> str:
    config = folder.read_settings(folder.transformer_folder().relative_to(folder.path) / "config.json")
    named = config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else "none"


def _require_one_score(folder: EncoderFolder) -> None:
    architecture = _architecture(folder)
    if not architecture.endswith(_CROSS_ENCODER):
        raise NearsayError(
            f"{folder.path} is no cross-encoder: its config.json names the architecture {architecture}, not "
            "one that ends with ForSequenceClassification. Name a cross-encoder's folder, or judge by an "
            "encoder: --judge"
        )


def _model(folder: EncoderFolder, device: str) -> CrossEncoder:
    try:
        with quiet_libraries():
            model: CrossEncoder = CrossEncoder(
                str(folder.path),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": torch.float32, "use_safetensors": True},
            )
    except Exception as error:
        raise NearsayError(
            f"the cross-encoder in {folder.path} cannot be loaded ({first_line(error)}). "
            "Save, copy or download it again"
        ) from error
    if model.num_labels != 1:
        raise NearsayError(
            f"the cross-encoder in {folder.path} gives {model.num_labels} scores a pair, and a judge gives "
            "one. Name one that was trained to score or rerank pairs"
        )
    transformer = cast("Transformer", model[0])
    with quiet_libraries():
        require_complete(folder, transformer.auto_model, exactly=names_code(folder), pooler=True)
    model.eval()
    return model
