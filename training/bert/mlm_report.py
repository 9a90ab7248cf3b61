"""What measuring masked words and next sentences gives: light, as a page that shows it loads no torch."""

from dataclasses import dataclass, field
from typing import ClassVar

from nearsay.data.report import Report


@dataclass(frozen=True, slots=True)
class MlmReport(Report):
    """Masked-language-model and next-sentence figures; of a causal BERT those of next tokens."""

    REPORT: ClassVar = "words measured"

    mlm_loss: float | None  # mean cross-entropy of masked tokens, nats; None of a causal BERT
    clm_loss: float | None = field(default=None, kw_only=True)  # that of next tokens, of a causal BERT alone
    perplexity: float  # e to the power of the loss
    mlm_accuracy: float | None  # share of masked tokens whose likeliest word is the true one
    clm_accuracy: float | None = field(default=None, kw_only=True)  # that of next tokens
    nsp_loss: float | None  # mean cross-entropy of rows, nats; None without next sentences
    nsp_accuracy: float | None
    random_share: float | None  # of rows whose second segment is from another document
    rows: int
    masked: int | None  # tokens
    predicted: int | None = field(default=None, kw_only=True)  # tokens of a causal BERT
    seconds: float

    def metrics(self) -> dict[str, float]:
        """Return the losses and accuracies that are there."""
        values = {
            "mlm_loss": self.mlm_loss,
            "mlm_accuracy": self.mlm_accuracy,
            "clm_loss": self.clm_loss,
            "clm_accuracy": self.clm_accuracy,
            "nsp_loss": self.nsp_loss,
            "nsp_accuracy": self.nsp_accuracy,
        }
        return {name: value for name, value in values.items() if value is not None}
