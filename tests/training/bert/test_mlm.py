"""Measuring masked words and next sentences."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Packing
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.mlm import evaluate_mlm
from nearsay.training.bert.pretraining_network import PretrainingSums

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "boat", "net", "fog", "gull", "."]
SPECIAL = SpecialTokens(0, 1, 2, 3, 4)


class Guesser(nn.Module):
    """Takes every masked token for the same one, as surely each time, and every pair for a real one."""

    def __init__(self, token: int, probability: float, *, next_sentence: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.token, self.next_sentence = token, next_sentence
        self.right, self.wrong = -math.log(probability), -math.log((1 - probability) / (len(PIECES) - 1))

    def forward(
        self, *, masked_labels: Tensor, random_next: Tensor | None = None, **_: Tensor
    ) -> PretrainingSums:
        right = (masked_labels == self.token).sum()
        loss = right * self.right + (len(masked_labels) - right) * self.wrong
        if not self.next_sentence or random_next is None:
            return PretrainingSums(loss, right, None, None, None)
        real = (random_next == 0).sum()
        return PretrainingSums(loss, right, len(random_next) * torch.tensor(math.log(2)), real, None)


def text_of(folder: Path, documents: Sequence[str]) -> PreparedText:
    tokenizer = Tokenizer(models.WordPiece({p: n for n, p in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(PIECES[:5])
    (folder / "text.txt").write_text("\n\n".join(documents))
    return prepare_text([folder / "text.txt"], tokenizer, folder / "prepared")


def test_figures_are_worked_out_by_hand(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["boat boat .\nboat boat .\n" * 20] * 3)  # two of three tokens are "boat"
    guesser = Guesser(token=5, probability=0.5, next_sentence=True)
    report = evaluate_mlm(guesser, text, SPECIAL, ExampleConfig(length=32))  # type: ignore[arg-type]
    boats = report.mlm_accuracy
    assert 0.4 < boats < 0.9
    assert report.mlm_loss == pytest.approx(boats * math.log(2) + (1 - boats) * math.log(18))
    assert report.perplexity == pytest.approx(math.exp(report.mlm_loss))
    assert report.nsp_loss == pytest.approx(math.log(2))
    assert report.random_share is not None
    assert report.nsp_accuracy == pytest.approx(1 - report.random_share)
    assert set(report.metrics()) == {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"}


def test_without_next_sentences_only_words_are_measured(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["boat net .\n" * 30])
    guesser = Guesser(token=5, probability=0.5, next_sentence=False)
    rows = ExampleConfig(length=16, packing=Packing.FULL_SENTENCES)
    report = evaluate_mlm(guesser, text, SPECIAL, rows)  # type: ignore[arg-type]
    assert (report.nsp_loss, report.nsp_accuracy, report.random_share) == (None, None, None)
    assert set(report.metrics()) == {"mlm_loss", "mlm_accuracy"}


def test_every_look_sees_the_same_rows_and_the_first_rows_are_enough_if_asked(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["boat net . fog gull .\n" * 300] * 2)
    guesser = Guesser(token=6, probability=0.3, next_sentence=True)
    rows = ExampleConfig(length=16)
    told: list[int] = []
    whole = evaluate_mlm(guesser, text, SPECIAL, rows, progress=told.append)  # type: ignore[arg-type]
    again = evaluate_mlm(guesser, text, SPECIAL, rows)  # type: ignore[arg-type]
    assert (whole.mlm_loss, whole.rows, whole.masked) == (again.mlm_loss, again.rows, again.masked)
    assert told[-1] == whole.rows
    part = evaluate_mlm(guesser, text, SPECIAL, rows, most_rows=70)  # type: ignore[arg-type]
    assert part.rows == 70
    assert part.masked < whole.masked


def test_a_text_of_unknown_words_alone_is_refused(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["zeppelin zeppelin\nballoon", "balloon\nzeppelin"])
    guesser = Guesser(token=5, probability=0.5, next_sentence=True)
    with pytest.raises(BadInputError, match="nothing to predict"):
        evaluate_mlm(guesser, text, SPECIAL, ExampleConfig(length=16))  # type: ignore[arg-type]
