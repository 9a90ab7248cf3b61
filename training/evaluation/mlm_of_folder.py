"""Masked words and next sentences of a saved BERT."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from transformers import BertForPreTraining

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Packing
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.mlm import MlmReport, evaluate_mlm
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.encoder.hardware import Precision, choose_hardware, computing_in

__all__ = ["evaluate_mlm_of"]


def evaluate_mlm_of(
    name_or_folder: str,
    texts: Sequence[str | Path],
    *,
    length: int = 128,
    most_rows: int | None = None,
    reading: PrepareOptions | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> tuple[MlmReport, list[str]]:
    """Measure a BERT's folder on texts; also gives notes on what was read and what could not be measured.

    Raises BadInputError when the folder has no masked-language-model head or the texts give no rows.
    """
    bert = load_bert(name_or_folder)
    notes: list[str] = []
    try:
        model = load_model(bert, BertForPreTraining)
        pairs = True
    except BadInputError:
        model = _without_next_sentences(bert)
        notes.append(f"{bert.name} has no next-sentence head: masked words alone are measured")
        pairs = False
    if length > bert.positions:
        raise BadInputError(
            f"{bert.name} takes rows of up to {bert.positions} tokens, not {length}. Give a shorter --length"
        )
    chosen, resolved = choose_hardware(device, Precision(precision))
    with tempfile.TemporaryDirectory(prefix="nearsay-") as folder:
        text = prepare_text(
            texts, bert.tokenizer, Path(folder) / "text", reading or PrepareOptions(), report=notes.append
        )
        if pairs and (not text.has_breaks or text.sentences == text.documents):
            why = "documents of one sentence each" if text.has_breaks else "one document"
            notes.append(f"the text is {why}, so next sentences are not measured")
            pairs = False
        packing = Packing.SENTENCE_PAIRS if pairs else Packing.FULL_SENTENCES
        network = PretrainingNetwork(model, next_sentence=pairs).to(chosen).eval()
        with computing_in(resolved, chosen):
            report = evaluate_mlm(
                network,
                text,
                SpecialTokens.from_tokenizer(bert.tokenizer),
                ExampleConfig(length=length, packing=packing),
                most_rows=most_rows,
            )
    return report, notes


def _without_next_sentences(bert: BertFolder) -> BertForPreTraining:
    try:
        return load_model(bert, BertForPreTraining, fresh=("cls.seq_relationship", "pooler"))
    except BadInputError as error:
        raise BadInputError(
            f"{bert.name} has no head for masked words: {error}. A BERT of nearsay train pretrain has one"
        ) from error
