"""The same encoder with shorter vectors."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import require_new
from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.reports import ReductionReport
from nearsay.training.sentence.compression.derived_folder import append_layer, open_model, save_derived
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import VectorEncoder


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """A PCA projection."""

    mean: NDArray[np.float64]  # (width,) of the fitted vectors
    components: NDArray[np.float64]  # (dimension, width), orthonormal rows, by descending variance
    variance_kept: float  # share of the variance that is kept, 0 to 1
    vectors: int  # number of fitted vectors

    def project(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project (n, width) vectors to (n, dimension), without centring."""
        return np.ascontiguousarray(vectors @ self.components.T, dtype=np.float32)


def principal_components(
    windows: Iterable[NDArray[np.float32] | NDArray[np.float64]], dimension: int
) -> PrincipalComponents:
    """Fit the `dimension` principal components, in one pass and with one window in memory.

    windows: arrays (rows, width) of float32 or float64

    The sign of a component is chosen so that its largest number is positive. Raises BadInputError for fewer
    vectors than dimensions + 1, or vectors that are not wider than `dimension`.

    Pearson 1901, https://doi.org/10.1080/14786440109462720
    """
    count = 0
    first: NDArray[np.float64] | None = None
    total = products = np.zeros(0)
    for window in windows:
        if not len(window):
            continue
        if first is None:
            width = window.shape[1]
            # Less one of the vectors, so that a mean far from 0 costs no digits of the variance.
            first, total, products = window[0].astype(np.float64), np.zeros(width), np.zeros((width, width))
        shifted = window - first
        count += len(shifted)
        total = total + shifted.sum(axis=0)
        products = products + shifted.T @ shifted
    if first is None or count <= dimension:
        raise BadInputError(
            f"{count:,} texts are too few to choose {dimension} dimensions by. "
            f"Give more than {dimension} texts, better some thousands"
        )
    if not 1 <= dimension < len(first):
        raise BadInputError(
            f"{len(first)} dimensions cannot be reduced to {dimension}. "
            f"Name a number from 1 to {len(first) - 1}"
        )
    shift = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(shift, shift))
    components = directions[:, ::-1][:, :dimension].T
    greatest = components[np.arange(dimension), np.abs(components).argmax(axis=1)]
    return PrincipalComponents(
        mean=first + shift,
        components=np.ascontiguousarray(components * np.sign(greatest)[:, None]),
        variance_kept=float(variances[::-1][:dimension].sum() / variances.sum()) if variances.sum() else 1.0,
        vectors=count,
    )


_WINDOW_TEXTS = 1024


def _encoded(
    encoder: VectorEncoder, texts: Iterable[str], progress: Callable[[int], None] | None
) -> Iterator[NDArray[np.float32]]:
    """The vectors of a window of texts after another, which are read once, two windows ahead."""
    source, done = iter(texts), 0
    for encoded in encoder.stream(iter(lambda: list(islice(source, _WINDOW_TEXTS)), [])):
        done += len(encoded.vectors)
        if progress is not None:
            progress(done)
        yield encoded.vectors


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
    """Write an encoder whose vectors are projected to their principal components to a new folder.

    texts:    similar to those that will be searched, a few thousand; read once, a window in memory at a time
    progress: called with the number of encoded texts

    The vectors are normalised to unit length. The projection is a Dense module without a bias: subtracting
    the texts' mean gives the bundled encoder in 128 dimensions 81.1 instead of 80.9 on the STS benchmark, but
    .611 instead of .632 on SciFact, and the mean of other texts would be wrong. Raises BadInputError for too
    few texts or a dimension that is not smaller, and like `Encoder.load`.

    After sentence-transformers' examples, dimensionality_reduction.py,
    https://sbert.net/examples/sentence_transformer/training/distillation/README.html
    """
    require_new(out)
    loaded = Encoder.load(encoder, device=device, precision=precision)
    if not 1 <= dimension < loaded.dimension:
        raise _not_smaller(dimension, loaded.dimension, loaded.name)
    source, model = open_model(encoder)
    fitted = principal_components(_encoded(loaded, texts, progress), dimension)
    append_layer(model, fitted.components.astype(np.float32))
    kept = f"{100 * fitted.variance_kept:.1f} %"
    save_derived(
        model,
        source,
        out,
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
        limits=("The directions that were left out told texts apart too; texts of another kind lose more.",),
    )
    return ReductionReport(out, dimension, loaded.dimension, fitted.vectors, fitted.variance_kept)


def truncate_encoder(encoder: str | Path, out: Path, *, dimension: int) -> ReductionReport:
    """Write an encoder that truncates another's vectors to `dimension` dimensions to a new folder.

    For encoders trained with the Matryoshka objective; the vectors are not of unit length. Raises
    BadInputError for a dimension that is not smaller, and like `Encoder.load`.

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
        step=f"cut from {before} to {dimension} dimensions",
        summary=f"{source.name} with the first {dimension} of its {before} dimensions.",
        settings={"method": "matryoshka", "dimension": dimension},
        limits=("An encoder that was not trained for it may lose much by this.",),
    )
    return ReductionReport(out, dimension, before, 0, None)


def _not_smaller(dimension: int, before: int, name: str) -> BadInputError:
    return BadInputError(
        f"the vectors of {name!r} have {before} dimensions, which cannot be reduced to {dimension}. "
        f"Name a dimension from 1 to {before - 1}"
    )
