"""BERT with its pretraining losses, the vocabulary's projection at masked positions alone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertLMHeadModel, PreTrainedModel

# The span-boundary objective: the tokens of a span from the two tokens beside it.
#
# Joshi et al. 2020, section 3.2, https://arxiv.org/abs/1907.10529


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
        """Compute a vector for each masked token, to be compared with the word embeddings.

        tokens:  (tokens, width) float, a batch's rows concatenated
        edges:   (masked, 2) int, the tokens before and after each one's span
        offsets: (masked,) int, its position in the span, from 0
        returns: (masked, width)
        """
        places = self.places(offsets.clamp(max=self.places.num_embeddings - 1))
        vectors: Tensor = self.layers(torch.cat([tokens[edges[:, 0]], tokens[edges[:, 1]], places], dim=-1))
        return vectors


@dataclass(frozen=True, slots=True)
class PretrainingSums:
    """Sums over a batch; divide by its counts."""

    mlm_loss: Tensor  # cross-entropy in nats, over masked tokens, or all of a causal BERT
    mlm_right: Tensor  # of these, tokens whose likeliest word is the true one
    nsp_loss: Tensor | None  # cross-entropy in nats, over rows; None without next sentences
    nsp_right: Tensor | None
    span_loss: Tensor | None  # cross-entropy of the span-boundary head, over masked tokens


class PretrainingNetwork(nn.Module):
    """transformers' BertForPreTraining, computing only what the losses need.

    transformers projects every token onto the vocabulary, but six of seven of those scores are never used;
    for a small BERT that is most of its work. A causal BERT (`is_decoder` in its config) predicts next
    tokens.
    """

    def __init__(
        self, bert: BertForPreTraining, *, next_sentence: bool, longest_span: int | None = None
    ) -> None:
        """`longest_span`: adds the span-boundary head; None leaves it out."""
        super().__init__()
        self.bert = bert
        self.next_sentence = next_sentence
        self.span_head = SpanBoundaryHead(bert.config, longest_span) if longest_span else None
        for part in (bert.bert.pooler, bert.cls.seq_relationship):
            if part is not None:
                part.requires_grad_(next_sentence)

    @property
    def objective(self) -> str:
        """The prefix of its metrics' names: "mlm" for masked tokens, or "clm" for next tokens."""
        return "clm" if self.bert.config.is_decoder else "mlm"

    def forward(
        self,
        *,
        token_ids: Tensor,
        segment_ids: Tensor,
        masked_positions: Tensor,
        masked_labels: Tensor,
        attention_mask: Tensor | None = None,
        random_next: Tensor | None = None,
        span_edges: Tensor | None = None,
        span_offsets: Tensor | None = None,
    ) -> PretrainingSums:
        """Run rows through the model.

        token_ids, segment_ids: (rows, width) int
        attention_mask:         (rows, width) bool, True = real token; None when no row is padded
        masked_positions:       (masked,) int, row x width + column
        masked_labels:          (masked,) int
        random_next:            (rows,) int, 1 = the second segment is from another document
        span_edges:             (masked, 2) int, row x width + column
        span_offsets:           (masked,) int
        """
        encoded = self.bert.bert(
            input_ids=token_ids, token_type_ids=segment_ids, attention_mask=attention_mask
        )
        tokens = encoded.last_hidden_state.flatten(0, 1)
        scores = self.bert.cls.predictions(tokens[masked_positions]).float()
        mlm_loss = cross_entropy(scores, masked_labels, reduction="sum")
        mlm_right = (scores.detach().argmax(dim=-1) == masked_labels).sum()
        nsp_loss = nsp_right = span_loss = None
        if self.next_sentence and random_next is not None:
            verdicts = self.bert.cls.seq_relationship(encoded.pooler_output).float()
            nsp_loss = cross_entropy(verdicts, random_next, reduction="sum")
            nsp_right = (verdicts.detach().argmax(dim=-1) == random_next).sum()
        if self.span_head is not None and span_edges is not None and span_offsets is not None:
            decoder = self.bert.cls.predictions.decoder
            vectors = self.span_head(tokens, span_edges, span_offsets)
            span_scores = linear(vectors, decoder.weight, decoder.bias).float()
            span_loss = cross_entropy(span_scores, masked_labels, reduction="sum")
        return PretrainingSums(mlm_loss, mlm_right, nsp_loss, nsp_right, span_loss)

    def trained(self) -> PreTrainedModel:
        """The transformers model with the heads that were trained, and without the others."""
        if self.next_sentence:
            return self.bert
        kind = BertLMHeadModel if self.bert.config.is_decoder else BertForMaskedLM
        masked = kind(self.bert.config)
        masked.bert.load_state_dict(
            {name: v for name, v in self.bert.bert.state_dict().items() if not name.startswith("pooler.")}
        )
        masked.cls.predictions.load_state_dict(self.bert.cls.predictions.state_dict())
        return masked

    def flops(self, tokens: int, width: int, masked: int) -> float:
        """The number of floating point operations of a forward and backward pass.

        tokens: real ones; width: tokens that each attends to; masked: tokens that are predicted

        A weight takes 6 per token: 2 forward, 2 for its gradient, 2 to propagate the gradient.
        """
        config = self.bert.config
        layer = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
        attention = 2 * width * config.hidden_size
        layers = tokens * config.num_hidden_layers * (layer + attention)
        heads = masked * config.hidden_size * (config.hidden_size + config.vocab_size)
        return 6.0 * (layers + heads * (2 if self.span_head is not None else 1))
