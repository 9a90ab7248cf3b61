"""The same encoder with shorter vectors."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.base.modules import Dense, Normalize

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.compression.derived_folder import (
    Derivation,
    open_model,
    require_new,
    save_derived,
)
from nearsay.training.sentence.compression.encoded_windows import encoded_windows
from nearsay.training.sentence.compression.principal_components import principal_components
from nearsay.training.sentence.encoder import Encoder, Precision

__all__ = ["ReductionMethod", "ReductionReport", "reduce_encoder", "truncate_encoder"]


class ReductionMethod(StrEnum):
    """How vectors are made shorter."""

    PCA = "pca"  # turned into the directions in which texts' vectors differ most, and cut there
    MATRYOSHKA = "matryoshka"  # cut as they are, for an encoder that was trained so


@dataclass(frozen=True, slots=True)
class ReductionReport:
    """What was made."""

    folder: Path
    dimension: int
    from_dimension: int
    texts: int  # that the directions were chosen by; 0 when none were needed
    variance_kept: float | None  # share of the vectors' variance, 0 to 1; None when it was not measured


def reduce_encoder(
    encoder: str | Path,
    texts: Iterable[str],
    out: Path,
    *,
    dimension: int,
    device: str | None = None,
    precision: Precision = Precision.AUTO,
    progress: Callable[[int], None] | None = None,
) -> ReductionReport:
    """Write an encoder whose vectors are an encoder's principal components, of length 1, to a new folder.

    texts:    like those that will be searched, some thousands; read once, a window in memory at a time
    progress: is told how many texts were encoded

    The components are a Dense module without a bias: to take the texts' mean away as well gives the bundled
    encoder in 128 dimensions 81.1 in place of 80.9 on the STS benchmark, but .611 in place of .632 on
    SciFact, and a mean of other texts would be the wrong one. Raises BadInputError for too few texts or a
    dimension that is not smaller, and as `Encoder.load` does.

    After sentence-transformers' examples, dimensionality_reduction.py,
    https://sbert.net/examples/sentence_transformer/training/distillation/README.html
    """
    require_new(out)
    loaded = Encoder.load(encoder, device=device, precision=precision)
    if not 1 <= dimension < loaded.dimension:
        raise _not_smaller(dimension, loaded.dimension, loaded.name)
    windows = encoded_windows(loaded, texts, progress)
    fitted = principal_components((vectors for _, vectors in windows), dimension)
    source, model = open_model(encoder)
    with model.truncate_embeddings(None):
        width = int(model.get_embedding_dimension() or 0)
    # Of an encoder whose vectors are cut, the components know the first numbers alone.
    weight = np.zeros((dimension, width), dtype=np.float32)
    weight[:, : loaded.dimension] = fitted.components
    model.truncate_dim = None
    model.append(
        Dense(
            width,
            dimension,
            bias=False,
            activation_function=torch.nn.Identity(),
            init_weight=torch.from_numpy(weight),
        )
    )
    model.append(Normalize())
    kept = f"{100 * fitted.variance_kept:.1f} %"
    save_derived(
        model,
        source,
        out,
        Derivation(
            step=f"{loaded.dimension} dimensions reduced to {dimension} by PCA of {fitted.vectors:,} texts",
            summary=(
                f"{source.name} with vectors of {dimension} dimensions in place of {loaded.dimension}: the "
                f"principal components of {fitted.vectors:,} texts' vectors, with {kept} of their variance."
            ),
            settings={
                "method": "pca",
                "dimension": dimension,
                "texts": fitted.vectors,
                "variance_kept": kept,
            },
            limits=(
                "The directions that were left out told texts apart too; texts of another kind lose more.",
            ),
        ),
    )
    return ReductionReport(out, dimension, loaded.dimension, fitted.vectors, fitted.variance_kept)


def truncate_encoder(encoder: str | Path, out: Path, *, dimension: int) -> ReductionReport:
    """Write an encoder that gives the first `dimension` dimensions of an encoder's vectors to a new folder.

    For one that was trained with the Matryoshka objective; its vectors have no longer the length 1. Raises
    BadInputError for a dimension that is not smaller, and as `Encoder.load` does.

    Kusupati et al. 2022, https://arxiv.org/abs/2205.13147
    """
    require_new(out)
    source, model = open_model(encoder)
    before = int(model.get_embedding_dimension() or 0)
    if not 1 <= dimension < before:
        raise _not_smaller(dimension, before, source.name)
    model.truncate_dim = dimension
    save_derived(
        model,
        source,
        out,
        Derivation(
            step=f"cut from {before} to {dimension} dimensions",
            summary=f"{source.name} with the first {dimension} of its {before} dimensions.",
            settings={"method": "matryoshka", "dimension": dimension},
            limits=("An encoder that was not trained for it may lose much by this.",),
        ),
    )
    return ReductionReport(out, dimension, before, 0, None)


def _not_smaller(dimension: int, before: int, name: str) -> BadInputError:
    return BadInputError(
        f"the vectors of {name!r} have {before} dimensions, which cannot be reduced to {dimension}. "
        f"Name a dimension from 1 to {before - 1}"
    )
