"""An encoder that looks its tokens up in a table: hundreds of times quicker, and less exact."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from nearsay.data.durable import require_new
from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.evaluation.reports import StaticReport
from nearsay.training.sentence.compression.derived_folder import open_model, save_derived
from nearsay.training.sentence.compression.reduction import principal_components
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.forward import ForwardPass
from nearsay.training.sentence.loading import transformer_of
from nearsay.training.sentence.text_encoder import encoded_texts
from nearsay.training.sentence.tokens import TextTokenizer

_SIF = 1e-4  # of Arora et al. and of model2vec; 1e-3 was no better on the STS benchmark
# With few rounds the tokens that the texts hardly tell about stay near their start, and more gain nothing.
_RIDGE = 1e-3
_ROUNDS = 30


def zipf_probabilities(tokens: int) -> NDArray[np.float64]:
    """Estimate token probabilities from their position in a vocabulary sorted by frequency.

    returns: (tokens,), 1 / (position + 2), positions from 0, normalised to sum 1

    As model2vec does, https://github.com/MinishLab/model2vec
    """
    inverse = 1 / np.arange(2, tokens + 2, dtype=np.float64)
    probabilities: NDArray[np.float64] = inverse / inverse.sum()
    return probabilities


def observed_probabilities(token_ids: Sequence[Sequence[int]], tokens: int) -> NDArray[np.float64]:
    """Estimate token probabilities from counts in texts, with add-one smoothing."""
    counts = np.bincount([token for ids in token_ids for token in ids], minlength=tokens) + 1.0
    probabilities: NDArray[np.float64] = counts / counts.sum()
    return probabilities


def sif_weights(probabilities: NDArray[np.float64], coefficient: float = _SIF) -> NDArray[np.float64]:
    """Smooth inverse frequency weights, nearly 1 for rare tokens: a / (a + p).

    Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings",
    https://openreview.net/forum?id=SyK00v5xx
    """
    weights: NDArray[np.float64] = coefficient / (coefficient + probabilities)
    return weights


def token_shares(token_ids: Sequence[Sequence[int]], tokens: int) -> "scipy.sparse.csr_matrix":
    """The (texts, tokens) matrix that converts a table of token vectors to the texts' means."""
    lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
    columns = np.fromiter((token for ids in token_ids for token in ids), dtype=np.int64, count=lengths.sum())
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_matrix((shares, columns, starts), shape=(len(token_ids), tokens))


def fitted_table(
    start: NDArray[np.float64],
    shares: "scipy.sparse.csr_matrix",
    targets: NDArray[np.float64],
    *,
    ridge: float = _RIDGE,
    rounds: int = _ROUNDS,
) -> NDArray[np.float64]:
    """Fit a table so that the means of texts' tokens approximate another encoder's vectors.

    start:   (tokens, dimension); scaled to fit best, then changed as little as necessary
    shares:  (texts, tokens) of `token_shares`
    targets: (texts, dimension)
    returns: (tokens, dimension), the minimum of |shares table - targets|² + ridge |table - start|²,
             approximated by conjugate gradients for each dimension

    Hestenes & Stiefel 1952, https://doi.org/10.6028/jres.049.044
    """
    means = shares @ start
    size = float((means * means).sum())
    start = start * (float((means * targets).sum()) / size if size else 1.0)
    transposed = shares.T.tocsr()
    left = transposed @ (targets - shares @ start)
    change = np.zeros_like(start)
    direction = left.copy()
    squares = (left * left).sum(axis=0)
    for _ in range(rounds):
        image = transposed @ (shares @ direction) + ridge * direction
        step = _quotient(squares, (direction * image).sum(axis=0))
        change += step * direction
        left -= step * image
        before, squares = squares, (left * left).sum(axis=0)
        direction = left + _quotient(squares, before) * direction
    table: NDArray[np.float64] = start + change
    return table


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quotients, 0 where a dimension has nothing left to gain."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


_WINDOW_TOKENS = 4096


def make_static_encoder(
    encoder: str | Path,
    out: Path,
    *,
    dimension: int = 256,
    texts: Iterable[str] = (),
    device: str | None = None,
    precision: Precision = Precision.AUTO,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> StaticReport:
    """Write a static encoder that approximates a transformer's, as a StaticEmbedding, to a new folder.

    dimension: of the vectors, by PCA; an encoder with no more dimensions keeps its own
    texts:     unlabelled, similar to those that will be encoded; held in memory with their vectors
    progress:  called with what is encoded ("tokens" or "texts"), how many, and of how many if known

    Each token of the vocabulary is encoded on its own, between the special tokens, then projected by PCA and
    weighted by inverse frequency. Without texts, frequencies are estimated by Zipf's law from the
    vocabulary's order, as in model2vec. With texts they are counted, the principal components are those of
    the texts, and the table is then fitted to the encoder's vectors of the texts: from all-MiniLM-L6-v2, on
    the STS benchmark, 61 without and 78 with the benchmark's training sentences.

    Raises NearsayError for an encoder without a transformer, BadInputError for fewer texts than dimensions,
    and like `Encoder.load`.

    Tulkens & van Dongen 2024, https://github.com/MinishLab/model2vec
    """
    require_new(out)
    if dimension < 1:
        raise BadInputError(
            f"vectors of {dimension} dimensions are asked for. Name a dimension of at least 1"
        )
    report = progress or _silent
    source, model = open_model(encoder)
    transformer_of(model, source.folder)
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    given = list(texts)
    if given:
        loaded = Encoder.load(encoder, device=device, precision=precision)
        encoded, _ = encoded_texts(loaded, given, progress=lambda done, total: report("texts", done, total))
        vectors = encoded.astype(np.float64)
        directions = _directions(vectors, dimension)  # before all tokens are encoded: texts may be too few
        start = _token_vectors(model, tokenizer, device, precision, report)
        cutting = TextTokenizer(tokenizer, loaded.max_tokens, special_tokens=False)
        table = _fitted(start, vectors, directions, cutting, given)
    else:
        start = _token_vectors(model, tokenizer, device, precision, report)
        weights = sif_weights(zipf_probabilities(len(start)))
        table = _centred(start) @ _directions(start, dimension) * weights[:, None]
    static = StaticEmbedding(tokenizer, embedding_weights=np.ascontiguousarray(table, dtype=np.float32))
    fitted = f", fitted to {len(given):,} texts" if given else ""
    save_derived(
        SentenceTransformer(modules=[static, Normalize()], device="cpu"),
        source,
        out,
        step=f"static table of {len(table):,} tokens and {table.shape[1]} dimensions{fitted}",
        summary=(
            f"A vector for each token, made from {source.name}{fitted}; a text's vector is their mean. "
            "No transformer runs."
        ),
        settings={"tokens": len(table), "dimension": table.shape[1], "texts": len(given)},
        limits=("The order of words and what they mean beside each other are lost.",),
    )
    return StaticReport(out, len(table), table.shape[1], len(given))


def _token_vectors(
    model: SentenceTransformer,
    tokenizer: Tokenizer,
    device: str | None,
    precision: Precision,
    report: Callable[[str, int, int | None], None],
) -> NDArray[np.float64]:
    """The encoder's vector of every token by itself, (tokens, dimension), not normalised."""
    chosen, resolved = choose_hardware(device, precision)
    pooled = SentenceTransformer(
        modules=[module for module in model if not isinstance(module, Normalize)],
        device=chosen,
        truncate_dim=model.truncate_dim,
    ).eval()
    forward = ForwardPass(pooled, device=chosen, precision=resolved)
    whole = tokenizer.encode("a")
    special = [bool(mark) for mark in whole.special_tokens_mask]
    first = special.index(False)
    last = len(special) - special[::-1].index(False)
    count = tokenizer.get_vocab_size()
    rows = []
    for begin in range(0, count, _WINDOW_TOKENS):
        window = range(begin, min(begin + _WINDOW_TOKENS, count))
        rows.append(forward.run([[*whole.ids[:first], token, *whole.ids[last:]] for token in window]))
        report("tokens", window.stop, count)
    return np.nan_to_num(np.concatenate(rows).astype(np.float64))


def _fitted(
    start: NDArray[np.float64],
    vectors: NDArray[np.float64],
    directions: NDArray[np.float64],
    cutting: TextTokenizer,
    texts: list[str],
) -> NDArray[np.float64]:
    window = cutting.window(texts)
    token_ids = [window.token_ids[position] for position in window.positions]
    weights = sif_weights(observed_probabilities(token_ids, len(start)))
    table = _centred(start) @ directions * weights[:, None]
    return fitted_table(table, token_shares(token_ids, len(start)), _centred(vectors) @ directions)


def _directions(vectors: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """The (width, dimension) matrix of principal components; the identity if there is nothing to reduce."""
    if vectors.shape[1] <= dimension:
        return np.eye(vectors.shape[1])
    return principal_components([vectors], dimension).components.T


def _centred(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    centred: NDArray[np.float64] = vectors - vectors.mean(axis=0)
    return centred


def _silent(_what: str, _done: int, _total: int | None) -> None:
    return
