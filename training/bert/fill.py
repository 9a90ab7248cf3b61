"""The likeliest words for a masked place."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import BertForMaskedLM

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.sentence.device import choose_device

__all__ = ["Candidate", "Filler"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand at a masked place."""

    place: int  # which [MASK] of the text, from 1
    rank: int  # from 1
    token: str  # a WordPiece; "##" begins one that goes on with the word before it
    probability: float  # of the token at that place, the other masks left as they are


class Filler:
    """A BERT with its masked-language-model head."""

    def __init__(self, bert: BertFolder, model: BertForMaskedLM, device: str) -> None:
        """Use `Filler.load`."""
        self._bert = bert
        model.to(torch.device(device))  # type: ignore[arg-type]  # transformers hides torch's signature
        self._model = model
        self._device = device

    @classmethod
    def load(cls, name_or_folder: str, *, device: str | None = None) -> "Filler":
        """Load a BERT; BadInputError when its folder has no masked-language-model head."""
        bert = load_bert(name_or_folder)
        try:
            model = load_model(bert, BertForMaskedLM)
        except BadInputError as error:
            raise BadInputError(
                f"{bert.name} has no head for masked words: {error}. A BERT of nearsay train pretrain has one"
            ) from error
        return cls(bert, model, choose_device(device))

    def fill(self, text: str, k: int = 5) -> list[Candidate]:
        """Give the `k` likeliest tokens of every [MASK] in the text, place by place.

        Raises BadInputError when the text has no [MASK] or is longer than the BERT takes.
        """
        encoding = self._bert.tokenizer.encode(text)
        mask = self._bert.tokenizer.token_to_id("[MASK]")
        places = [place for place, token in enumerate(encoding.ids) if token == mask]
        if not places:
            raise BadInputError("the text has no [MASK]. Write [MASK] where a word is to be found")
        if len(encoding.ids) > self._bert.positions:
            raise BadInputError(
                f"the text has {len(encoding.ids)} tokens, and {self._bert.name} takes "
                f"{self._bert.positions}. Shorten it"
            )
        with torch.inference_mode():
            scores = self._model(
                input_ids=torch.tensor([encoding.ids], device=self._device),
                token_type_ids=torch.tensor([encoding.type_ids], device=self._device),
            ).logits[0, places]
            best = torch.softmax(scores.float(), dim=-1).topk(min(k, scores.shape[-1]), dim=-1)
        return self._candidates(best.values.tolist(), best.indices.tolist())

    def _candidates(
        self, probabilities: Sequence[Sequence[float]], tokens: Sequence[Sequence[int]]
    ) -> list[Candidate]:
        return [
            Candidate(place, rank, str(self._bert.tokenizer.id_to_token(token)), probability)
            for place, row in enumerate(zip(probabilities, tokens, strict=True), 1)
            for rank, (probability, token) in enumerate(zip(*row, strict=True), 1)
        ]
