"""The span-boundary objective: the tokens of a span from the two tokens beside it.

Joshi et al. 2020, section 3.2, https://arxiv.org/abs/1907.10529
"""

import torch
from torch import Tensor, nn
from transformers import BertConfig

__all__ = ["SpanBoundaryHead"]


class SpanBoundaryHead(nn.Module):
    """Two layers with GELU and layer norm over (left edge, right edge, place in the span)."""

    def __init__(self, config: BertConfig, longest: int) -> None:
        """`longest`: the most tokens of a span; those beyond share the last place."""
        super().__init__()
        width = config.hidden_size
        self.places = nn.Embedding(longest, width)
        self.layers = nn.Sequential(
            nn.Linear(3 * width, width),
            nn.GELU(),
            nn.LayerNorm(width, eps=config.layer_norm_eps),
            nn.Linear(width, width),
            nn.GELU(),
            nn.LayerNorm(width, eps=config.layer_norm_eps),
        )
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=config.initializer_range)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, edges: Tensor, offsets: Tensor) -> Tensor:
        """Give a vector for each masked token, to be compared with the word embeddings.

        tokens:  (tokens, width) float, a batch's rows one after the other
        edges:   (masked, 2) int, the tokens before and after each one's span
        offsets: (masked,) int, its place in the span, from 0
        returns: (masked, width)
        """
        places = self.places(offsets.clamp(max=self.places.num_embeddings - 1))
        vectors: Tensor = self.layers(torch.cat([tokens[edges[:, 0]], tokens[edges[:, 1]], places], dim=-1))
        return vectors
