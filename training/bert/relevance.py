"""From the states of a text's last layer to its vector, and what each token has to do with it."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.encoder.folder import UnsupportedEncoderError
from nearsay.training.encoder.packed_encoder import on_vectors, pooled
from nearsay.training.encoder.plain_encoder import PlainEncoder, read_plain_encoder
from nearsay.training.sentence.pooling_shares import PoolingShares, Shares, pooling_shares, shares_of_plain


@dataclass(frozen=True, slots=True)
class TokenRelevance:
    """How relevant each token is to the text's vector, by three measures; each (tokens,).

    `vector` and `query` are exact: with `vector_rest` and `query_rest`, they add up to 1 and to the cosine.
    """

    vector: NDArray[np.float64] | None  # share of the vector; None: no sum over tokens, as with [CLS]
    vector_rest: float  # what no token contributes
    query: NDArray[np.float64] | None  # share of the cosine to a query; None: as above, or no query
    query_rest: float
    cosine: float | None  # to the query; None without a query
    rollout: NDArray[np.float64]  # of the pooled tokens' rows: sums to 1
    gradient: NDArray[np.float64]  # gradient x input: of the cosine, without a query of the vector's length
    exact: bool  # False: a step after the last layer is not linear, so shares are approximate
    notes: tuple[str, ...]


class PooledVector:
    """The steps after an encoder's last layer: differentiable in torch, and as shares of tokens."""

    def __init__(self, bert: BertFolder) -> None:
        """Read the folder; a BERT alone is pooled by the mean."""
        self._plain, self._shares, self.notes = _read(bert)

    @property
    def exact(self) -> bool:
        """Whether a vector is a sum over tokens up to a common factor."""
        return self._shares is not None and self._shares.exact

    def shares(self, last: torch.Tensor, prompt_length: int) -> Shares | None:
        """The contribution of each token to the vector at unit length; None with [CLS] pooling.

        last: (tokens, width)
        """
        if self._shares is None:
            return None
        states = last.detach().double().cpu().numpy()
        shares = self._shares.shares(states, prompt_length=prompt_length)
        return shares.scaled(1 / float(np.linalg.norm(shares.total)))

    def places(self, tokens: int, prompt_length: int) -> slice:
        """Which of this many tokens are pooled."""
        skip = prompt_length if self._plain is not None and not self._plain.include_prompt else 0
        if self._plain is not None and self._plain.modes == ("cls",):
            return slice(skip, skip + 1)
        return slice(skip, tokens)

    def vector(self, last: torch.Tensor, prompt_length: int) -> torch.Tensor:
        """The text's vector before normalisation, differentiable.

        last: (tokens, width)
        """
        own = last[self.places(len(last), prompt_length)]
        if self._plain is None:
            return own.mean(dim=0)
        vectors = torch.cat([pooled(mode, own[None]) for mode in self._plain.modes], dim=1)
        features = {"sentence_embedding": vectors}
        for step in self._plain.steps:
            if step is not None:  # a normalisation only divides; the cosine does not see it
                features = on_vectors(step, str(last.device))(features)
        return features["sentence_embedding"][0, : self._plain.truncate]


def rollout(attentions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Attention through all layers up to each, heads averaged, with the residual as half of every step.

    attentions: (layers, heads, tokens, tokens)
    returns:    (layers, tokens, tokens); rows sum to 1

    Abnar & Zuidema 2020, section 3, https://arxiv.org/abs/2005.00928
    """
    tokens = attentions.shape[-1]
    through = np.eye(tokens)
    rolled = []
    for layer in attentions.astype(np.float64).mean(axis=1):
        step = 0.5 * (layer + np.eye(tokens))
        through = step / step.sum(axis=-1, keepdims=True) @ through
        rolled.append(through)
    return np.array(rolled)


def _read(bert: BertFolder) -> tuple[PlainEncoder | None, PoolingShares | None, tuple[str, ...]]:
    """The steps after the last layer: for torch, in shares, and what has to be said of them."""
    if not bert.folder.modules():
        mean = PlainEncoder(np.empty((0, 0), np.float32), None, ("mean",), True, (), None, bert.tokenizer, 0)
        return mean, shares_of_plain(mean), (f"{bert.name} has no pooling: its last layer is averaged",)
    try:
        plain = read_plain_encoder(bert.folder)
    except UnsupportedEncoderError:
        from nearsay.training.sentence.loading import load_model as load_sentence_model

        shares = pooling_shares(load_sentence_model(bert.folder, "cpu"))
        return (
            None,
            shares,
            ("gradient x input is of the last layer's mean, not of the encoder's own pooling",),
        )
    shares = shares_of_plain(plain)
    if shares is None:
        return plain, None, (f"a vector of {bert.name} is one token's alone, so tokens have no shares in it",)
    return plain, shares, ()
