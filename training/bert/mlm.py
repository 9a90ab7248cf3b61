"""How well a BERT predicts masked words, or next tokens, and next sentences of text that is new to it."""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import BertForPreTraining

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.batches import PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.mlm_report import MlmReport
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.pretraining_task import network_batches
from nearsay.training.encoder.hardware import Precision, choose_hardware, computing_in

_ROWS = 64  # of a batch; a memory matter alone
_SEED = 7  # of the rows and masks, so that every model sees the same


def evaluate_mlm(
    network: PretrainingNetwork,
    text: PreparedText,
    special: SpecialTokens,
    examples: ExampleConfig,
    *,
    most_rows: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> MlmReport:
    """Measure the MLM on a text, with the same masks each time.

    The network is used in its current mode: put it in evaluation mode first.

    most_rows: stop after this many rows; None: the whole text
    progress:  called with the rows done

    Raises BadInputError if the text gives no rows, or only unknown words.
    """
    begun = time.perf_counter()
    device = next(network.parameters()).device
    batches = PretrainingBatches(text, special, examples, batch=_ROWS, seed=_SEED)
    sums = torch.zeros(4, dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
    rows = masked = random = 0
    with torch.inference_mode():
        for batch in batches.one_pass():
            here = len(batch.lengths) if most_rows is None else min(len(batch.lengths), most_rows - rows)
            parts = network_batches(
                batch,
                np.arange(here),
                # all words are scored for each token that is predicted: of more of these, fewer rows
                token_budget=int(_ROWS * examples.length * examples.masked_share / examples.predicted_share),
                pad_id=special.pad,
                full=examples.length,
            )
            for part in parts:
                found = network(**{name: tensor.to(device) for name, tensor in part.items()})
                sums[0] += found.mlm_loss
                sums[1] += found.mlm_right
                if found.nsp_loss is not None:
                    sums[2] += found.nsp_loss
                    sums[3] += found.nsp_right
            rows += here
            masked += int((batch.masked_positions < here * batch.token_ids.shape[1]).sum())
            random += int(batch.random_next[:here].sum()) if batch.random_next is not None else 0
            if progress:
                progress(rows)
            if most_rows is not None and rows >= most_rows:
                break
    if not masked:
        raise BadInputError(
            f"the text in {text.folder} has nothing to predict: its words are all unknown to the vocabulary. "
            "Give text in the vocabulary's language"
        )
    mlm_loss, mlm_right, nsp_loss, nsp_right = sums.tolist()
    loss, share = mlm_loss / masked, mlm_right / masked
    causal = examples.masking is Masking.CAUSAL
    pairs = network.next_sentence and examples.packing is Packing.SENTENCE_PAIRS
    return MlmReport(
        mlm_loss=None if causal else loss,
        clm_loss=loss if causal else None,
        perplexity=math.exp(min(loss, 700.0)),
        mlm_accuracy=None if causal else share,
        clm_accuracy=share if causal else None,
        nsp_loss=nsp_loss / rows if pairs else None,
        nsp_accuracy=nsp_right / rows if pairs else None,
        random_share=random / rows if pairs else None,
        rows=rows,
        masked=None if causal else masked,
        predicted=masked if causal else None,
        seconds=time.perf_counter() - begun,
    )


def unpaired(text: PreparedText) -> str | None:
    """Why next-sentence prediction cannot be measured on a text; None if it can."""
    if not text.has_breaks:
        return "one document"
    return "documents of one sentence each" if text.sentences == text.documents else None


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
    """Measure a BERT's folder on texts. Also returns notes on what was read and what could not be measured.

    A causal BERT is measured on next tokens. Raises BadInputError if the folder has no head that predicts
    words, or the texts give no rows.
    """
    bert = load_bert(name_or_folder)
    notes: list[str] = []
    masking, pairs = Masking.TOKENS, True
    if bert.is_causal:
        model = _without_next_sentences(bert)
        notes.append(f"{bert.name} attends from left to right: the tokens that come next are measured")
        masking, pairs = Masking.CAUSAL, False
    else:
        try:
            model = load_model(bert, BertForPreTraining)
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
        if pairs and (what := unpaired(text)) is not None:
            notes.append(f"the text is {what}, so next sentences are not measured")
            pairs = False
        packing = Packing.SENTENCE_PAIRS if pairs else Packing.FULL_SENTENCES
        network = PretrainingNetwork(model, next_sentence=pairs).to(chosen).eval()
        with computing_in(resolved, chosen):
            report = evaluate_mlm(
                network,
                text,
                SpecialTokens.from_tokenizer(bert.tokenizer),
                ExampleConfig(length=length, packing=packing, masking=masking),
                most_rows=most_rows,
            )
    return report, notes


def _without_next_sentences(bert: BertFolder) -> BertForPreTraining:
    try:
        return load_model(
            bert,
            BertForPreTraining,
            fresh=("cls.seq_relationship", "pooler"),
            is_decoder=bert.is_causal,
        )
    except BadInputError as error:
        raise BadInputError(
            f"{bert.name} has no head that predicts words: {error}. A BERT of nearsay train pretrain has one"
        ) from error
