"""A BERT with a head, as transformers has it, ready for training and asking."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification

from nearsay.data.errors import BadInputError, NotFiniteError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.heads.example import HeadExample, batch_tensors
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.encoder.hardware import Precision, computing_in, narrow_linear_weights
from nearsay.training.run.training_progress import go_on
from nearsay.training.sentence.batching import inference_batches

# Gets a batch: where its rows are among the given examples, (rows,) int64, and its tensors on the device.
TakeBatch = Callable[[NDArray[np.int64], dict[str, torch.Tensor]], None]


def run_examples(
    examples: Sequence[HeadExample], take: TakeBatch, *, pad_id: int, device: str, precision: Precision
) -> None:
    """Call `take` with every batch of rows of similar length, in the precision and without gradients.

    precision: a resolved one
    """
    lengths = [len(example) for example in examples]
    with computing_in(precision, device):
        for batch in inference_batches(lengths, device):
            tensors = batch_tensors([examples[row] for row in batch], pad_id=pad_id)
            take(batch, on_device(tensors, device))


def on_device(batch: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    """Move tensors to a device."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


HeadTransformer: TypeAlias = (
    BertForSequenceClassification | BertForTokenClassification | BertForQuestionAnswering
)


class HeadKind(StrEnum):
    """The kinds of heads."""

    CLASSIFIER = "classifier"  # a label for a text or a pair of texts
    TAGGER = "tagger"  # a tag for each word of a sentence
    READER = "reader"  # the span of a context that answers a question

    def transformer_class(self, bert: BertFolder) -> type[HeadTransformer]:
        """Its class in transformers.

        A classifier of a causal BERT labels the last token, which attends to the whole text; [CLS] attends
        only to itself. Radford et al. 2018, section 3.2, https://openai.com/index/language-unsupervised/
        """
        if self is HeadKind.CLASSIFIER and bert.is_causal:
            return BertForTokenClassification
        classes: dict[HeadKind, type[HeadTransformer]] = {
            HeadKind.CLASSIFIER: BertForSequenceClassification,
            HeadKind.TAGGER: BertForTokenClassification,
            HeadKind.READER: BertForQuestionAnswering,
        }
        return classes[self]


class HeadNetwork(torch.nn.Module):
    """A head of transformers whose last layer computes in float32 under autocast.

    That layer is small, and in bfloat16 its logits would have 8 bits, too few to rank answers.
    """

    def __init__(self, transformer: HeadTransformer, kind: HeadKind) -> None:
        """`transformer`: saved and loaded by itself; this module only runs it."""
        super().__init__()
        self.transformer = transformer
        self.per_token = kind is not HeadKind.CLASSIFIER
        """Whether it gives logits for each token, and not for a row."""
        self.fresh_head = False
        """Whether its last layer is random, and not from the folder."""
        self.frozen: tuple[torch.nn.Module, ...] = ()
        """Parts that are not trained; they stay in evaluation mode, without dropout."""
        self.stop: Callable[[], bool] | None = None
        """Asked before each batch of rows that it does not learn from; True raises StoppedError."""

    @property
    def head(self) -> torch.nn.Linear:
        """The last layer, whose rows are the labels, or an answer's first and last token."""
        head = self.transformer
        layer: torch.nn.Linear = (
            head.qa_outputs if isinstance(head, BertForQuestionAnswering) else head.classifier
        )
        return layer

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Compute logits in float32.

        input_ids, attention_mask, token_type_ids: (rows, tokens) int64
        returns: classifier: (rows, labels); tagger: (rows, tokens, labels); reader: (rows, tokens, 2), for
                 the first and the last token of the answer
        """
        vectors = self.vectors(input_ids, attention_mask, token_type_ids)
        if not isinstance(self.transformer, BertForQuestionAnswering):
            vectors = self.transformer.dropout(vectors)
        with torch.autocast(vectors.device.type, enabled=False):
            logits: torch.Tensor = self.head(vectors)
        return logits

    def vectors(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """The input of the last layer, in float32.

        returns: classifier: (rows, width), from the pooler, or of the last token of a causal BERT; the
                 others: (rows, tokens, width)
        """
        output = self.transformer.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )
        states: torch.Tensor = output.last_hidden_state
        if not self.per_token:
            last = attention_mask.sum(dim=1) - 1
            rows = torch.arange(len(last), device=last.device)
            states = states[rows, last] if self.transformer.bert.pooler is None else output.pooler_output
        return states.float()

    def train(self, mode: bool = True) -> "HeadNetwork":
        """Set training mode for the trained parts."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self


def load_network(bert: BertFolder, kind: HeadKind, labels: LabelSet | None = None) -> HeadNetwork:
    """Load a BERT with a head to be trained, in float32 on the CPU.

    labels: of a classifier or tagger; None for a reader

    The head comes from the folder if that has one for the same labels, and is otherwise initialised randomly
    from torch's generator, as is a missing pooler. Raises like `load_model`.
    """
    settings: dict[str, Any] = {"num_labels": 2}  # a reader's: an answer's first and last token
    if labels is not None:
        settings = labels.settings()
        if kind is HeadKind.CLASSIFIER:
            settings["problem_type"] = "single_label_classification"
    head = "qa_outputs" if kind is HeadKind.READER else "classifier"
    transformer = load_model(bert, kind.transformer_class(bert), fresh=(head, "bert.pooler"), **settings)
    network = HeadNetwork(transformer, kind)
    if not _has_head(bert, kind, labels):
        network.fresh_head = True
        _refresh(network.head, float(network.transformer.config.initializer_range))
    return network


def load_saved_network(
    folder: str | Path, kind: HeadKind, *, device: str, precision: Precision
) -> tuple[BertFolder, HeadNetwork]:
    """Load a trained head for inference; the matrices of its encoder are stored in the precision.

    precision: a resolved one

    Raises like `load_bert`, and BadInputError if the folder has no head of this kind.
    """
    bert = load_bert(folder)
    wanted = kind.transformer_class(bert)
    if wanted.__name__ not in (bert.config.architectures or ()):
        there = ", ".join(bert.config.architectures or ()) or "no head"
        raise BadInputError(
            f"{folder} holds {there}, and a {kind} is a {wanted.__name__}. "
            f"Name the folder of one, or train it: nearsay train {kind} FILE --bert {folder} --out DIR"
        )
    network = HeadNetwork(load_model(bert, wanted), kind)
    network.to(device)
    narrow_linear_weights(network.transformer.bert, precision)
    return bert, network.eval()


def example_logits(
    network: HeadNetwork,
    examples: Sequence[HeadExample],
    *,
    pad_id: int,
    device: str,
    precision: Precision,
) -> list[NDArray[np.float32]]:
    """Compute the logits of rows in evaluation mode, which the network is left in.

    returns: for each row, in order, its logits without padding
    """
    found: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(examples)
    network.eval()

    def take(batch: NDArray[np.int64], tensors: dict[str, torch.Tensor]) -> None:
        go_on(0, 1, network.stop)
        targets = tensors.pop("targets")
        del targets
        logits = network(**tensors).cpu().numpy()
        for row, place in enumerate(batch):
            found[place] = logits[row, : len(examples[place])] if network.per_token else logits[row]

    run_examples(examples, take, pad_id=pad_id, device=device, precision=precision)
    if any(not np.isfinite(logits).all() for logits in found):
        raise NotFiniteError(
            "the head gave a number that is NaN or infinite: its weights are damaged, or the precision is "
            "too narrow for them. Try --precision float32, then train it again"
        )
    return found


def _has_head(bert: BertFolder, kind: HeadKind, labels: LabelSet | None) -> bool:
    """Whether the folder was saved with this kind of head, for these labels."""
    if kind.transformer_class(bert).__name__ not in (bert.config.architectures or ()):
        return False
    return labels is None or LabelSet.of_config(bert.config.id2label or {}).names == labels.names


def _refresh(layer: torch.nn.Linear, spread: float) -> None:
    torch.nn.init.normal_(layer.weight, std=spread)
    torch.nn.init.zeros_(layer.bias)
