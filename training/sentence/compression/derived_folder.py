"""An encoder's folder that was made out of another encoder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize

from nearsay.data.document import JsonValue
from nearsay.data.durable import new_folder, require_new
from nearsay.data.errors import NearsayError
from nearsay.data.sentence_examples.learned_texts import LEARNED_FILE, LearnedTexts
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.model_card import ModelCard, with_step
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.loading import load_model, require_fitting_pooling
from nearsay.training.sentence.prompts import prompts_of_model
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import checked_weights, refuse_unsafe
from nearsay.training.sentence.source import EncoderSource, find_encoder, hub_name, lineage_of
from nearsay.training.sentence.text_encoder import TextKind

_PROBES = ["Two owls call from the wet wood.", "No train before noon", "a"]
_USAGE = """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
vectors = model.encode(["A first sentence.", "A second one."])
"""


def open_model(name_or_folder: str | Path) -> tuple[EncoderSource, SentenceTransformer]:
    """Load an encoder's modules on the CPU in float32, to be changed; raises like `Encoder.load`."""
    source = find_encoder(name_or_folder)
    checked_weights(source)
    model = load_model(source.folder, "cpu")
    require_fitting_pooling(model, source.folder)
    return source, model


def append_layer(model: SentenceTransformer, layer: NDArray[np.float32]) -> None:
    """Append a linear layer and normalisation to a model, in place.

    layer: (dimensions, the model's), to multiply the model's vectors with, also truncated ones
    """
    with model.truncate_embeddings(None):
        width = int(model.get_embedding_dimension() or 0)
    weight = np.zeros((len(layer), width), dtype=np.float32)
    weight[:, : layer.shape[1]] = layer  # of an encoder whose vectors are cut, the first numbers alone count
    model.truncate_dim = None
    model.append(
        Dense(
            width,
            len(layer),
            bias=False,
            activation_function=torch.nn.Identity(),
            init_weight=torch.from_numpy(weight),
        )
    )
    model.append(Normalize())


def save_derived(
    model: SentenceTransformer,
    source: EncoderSource,
    out: Path,
    *,
    step: str,
    summary: str,
    settings: Mapping[str, JsonValue],
    limits: Sequence[str],
    others: Sequence[EncoderSource] = (),
) -> Path:
    """Save a model, with its lineage and card, as the new folder `out`, atomically.

    model:    its modules, on the CPU in float32
    source:   the encoder that it was derived from, whose record of training texts is copied
    step:     for the lineage: the operation and its main settings, in a line
    summary:  for the card: what the encoder is, in a sentence or two
    settings: everything that the result depends on
    limits:   what it does worse than the original
    others:   further encoders that it contains, as in an average

    Raises NearsayError if the saved folder does not give the model's vectors, as with architectures whose
    layers know their number, and like `new_folder`.
    """
    require_new(out)
    name = out.resolve().name
    card = ModelCard(
        title=name,
        summary=summary,
        library="sentence-transformers",
        tags=("sentence-similarity", "nearsay"),
        usage=_USAGE.format(name=name),
        figures={},
        figures_note="",
        lineage=with_step(lineage_of(source), step),
        settings=settings,
        limits=limits,
        base=hub_name(source.source),
    )
    with new_folder(out) as place:
        with quiet_libraries():
            model.save(str(place), create_model_card=False, safe_serialization=True)
        card.save(place)
        learned = LearnedTexts.of(source.folder.path, source.name)
        for other in others:
            learned = learned.with_encoder(other.folder.path, other.name)
        (place / "run").mkdir()
        (place / "run" / LEARNED_FILE).write_text(json.dumps(learned.to_json()), "utf-8")
        refuse_unsafe(EncoderFolder(place))  # what we make must be what we take
        _require_equal(model, place, source.name)
    return out


def _require_equal(model: SentenceTransformer, folder: Path, name: str) -> None:
    prompt = prompts_of_model(model)[TextKind.PASSAGE]
    wanted = model.encode(_PROBES, prompt=prompt, convert_to_numpy=True, show_progress_bar=False)
    read = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32).encode_window(_PROBES).vectors
    if wanted.shape != read.shape or not np.allclose(wanted, read, atol=1e-4):
        raise NearsayError(
            f"what was made of {name!r} gives other vectors when it is saved and loaded again, so its "
            "architecture does not allow this. Take an encoder that stands on BERT, RoBERTa, MPNet or MiniLM"
        )
