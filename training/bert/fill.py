"""What pretraining's tasks answer: the likeliest words for a mask, and whether a sentence follows."""

from dataclasses import dataclass
from typing import Self, cast

import torch
from tokenizers import Tokenizer
from transformers import MODEL_FOR_MASKED_LM_MAPPING, BertForNextSentencePrediction, PreTrainedModel

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.encoder.hardware import choose_device


class _Headed:
    """A BERT with one of its pretraining heads."""

    def __init__(self, bert: BertFolder, model: PreTrainedModel, device: str) -> None:
        """Use `load`."""
        model.to(torch.device(device))  # type: ignore[arg-type]  # transformers hides torch's signature
        self._bert, self._model, self._device = bert, model, device

    @classmethod
    def _loaded(cls, bert: BertFolder, kind: type[PreTrainedModel], head: str, device: str | None) -> Self:
        try:
            model = load_model(bert, kind)
        except BadInputError as error:
            has = "predicts each token from those before it, and has" if bert.is_causal else "has"
            raise BadInputError(
                f"{bert.name} {has} no {head}. Name another BERT, or make one: nearsay train pretrain"
            ) from error
        return cls(bert, model, choose_device(device))


class NextSentence(_Headed):
    """A BERT with its next-sentence head."""

    @classmethod
    def load(cls, name_or_folder: str, *, device: str | None = None) -> Self:
        """Load a BERT; BadInputError if its folder has no next-sentence head."""
        head = "next-sentence head (one trained with --no-nsp has none)"
        return cls._loaded(load_bert(name_or_folder), BertForNextSentencePrediction, head, device)

    def probability(self, first: str, second: str) -> float:
        """The probability that `second` follows `first` in a text.

        Raises BadInputError if one of them is empty, or both together exceed the maximum length.
        """
        if not first.strip() or not second.strip():
            raise BadInputError("a sentence is empty. Give two sentences")
        encoding = self._bert.tokenizer.encode(first, second)
        if len(encoding.ids) > self._bert.positions:
            raise BadInputError(
                f"the sentences have {len(encoding.ids)} tokens, and {self._bert.name} takes "
                f"{self._bert.positions}. Shorten them"
            )
        with torch.inference_mode():
            verdict = self._model(
                input_ids=torch.tensor([encoding.ids], device=self._device),
                token_type_ids=torch.tensor([encoding.type_ids], device=self._device),
            ).logits[0]
        return float(torch.softmax(verdict.float(), dim=-1)[0])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A predicted token for a [MASK]."""

    place: int  # which [MASK] of the text, from 1
    rank: int  # from 1
    token: str  # a WordPiece; "##" marks a continuation of a word
    probability: float  # of the token at that position, with the other masks unchanged


class Filler(_Headed):
    """A BERT with its masked-language-model head."""

    @classmethod
    def load(cls, name_or_folder: str, *, device: str | None = None) -> Self:
        """Load a BERT; BadInputError if its folder has no masked-language-model head."""
        bert = load_bert(name_or_folder)
        kind = cast("type[PreTrainedModel]", MODEL_FOR_MASKED_LM_MAPPING[type(bert.config)])
        return cls._loaded(bert, kind, "head for masked words", device)

    def fill(self, text: str, k: int = 5) -> list[Candidate]:
        """Predict the `k` most likely tokens for every [MASK] in the text.

        Raises BadInputError if the text has no [MASK] or exceeds the maximum length.
        """
        known = self._bert.pretrained_tokenizer
        encoding = self._bert.tokenizer.encode(text.replace("[MASK]", known.mask_token or "[MASK]"))
        mask = known.mask_token_id
        places = [place for place, token in enumerate(encoding.ids) if token == mask]
        if not places:
            raise BadInputError("the text has no [MASK]. Write [MASK] where a word is to be found")
        if len(encoding.ids) > self._bert.positions:
            raise BadInputError(
                f"the text has {len(encoding.ids)} tokens, and {self._bert.name} takes "
                f"{self._bert.positions}. Shorten it"
            )
        segments = {"token_type_ids": torch.tensor([encoding.type_ids], device=self._device)}
        if getattr(self._bert.config, "type_vocab_size", 0) < 2:  # others number no segments
            segments = {}
        with torch.inference_mode():
            ids = torch.tensor([encoding.ids], device=self._device)
            scores = self._model(input_ids=ids, **segments).logits[0, places]
        return [each for place in likeliest(scores, self._bert.tokenizer, k) for each in place]


def likeliest(scores: torch.Tensor, tokenizer: Tokenizer, k: int) -> tuple[tuple[Candidate, ...], ...]:
    """The `k` most likely tokens for each masked position, from the head's scores (positions, vocabulary)."""
    best = torch.softmax(scores.float(), dim=-1).topk(min(k, scores.shape[-1]), dim=-1)
    return tuple(
        tuple(
            Candidate(place, rank, str(tokenizer.id_to_token(token)), probability)
            for rank, (probability, token) in enumerate(zip(*row, strict=True), 1)
        )
        for place, row in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True), 1)
    )
