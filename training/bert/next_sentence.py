"""Whether one sentence follows another."""

import torch
from transformers import BertForNextSentencePrediction

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.encoder.device import choose_device

__all__ = ["NextSentence"]


class NextSentence:
    """A BERT with its next-sentence head."""

    def __init__(self, bert: BertFolder, model: BertForNextSentencePrediction, device: str) -> None:
        """Use `NextSentence.load`."""
        self._bert = bert
        model.to(torch.device(device))  # type: ignore[arg-type]  # transformers hides torch's signature
        self._model = model
        self._device = device

    @classmethod
    def load(cls, name_or_folder: str, *, device: str | None = None) -> "NextSentence":
        """Load a BERT; BadInputError when its folder has no next-sentence head."""
        bert = load_bert(name_or_folder)
        try:
            model = load_model(bert, BertForNextSentencePrediction)
        except BadInputError as error:
            raise BadInputError(
                f"{bert.name} has no next-sentence head: {error}. "
                "A BERT that nearsay train pretrain made without --no-nsp has one"
            ) from error
        return cls(bert, model, choose_device(device))

    def probability(self, first: str, second: str) -> float:
        """Give how likely it is, from 0 to 1, that `second` comes right after `first` in a text.

        Raises BadInputError when one of them is empty or both together are longer than the BERT takes.
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
