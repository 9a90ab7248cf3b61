"""Which layer and which pooling of a BERT serve best: all of them, measured on one pass over the texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter

from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.layers import LayerChoice, layer_choices
from nearsay.training.bert.pooling import Pooling
from nearsay.training.encoder.device import choose_device
from nearsay.training.encoder.precision import Precision, resolve_precision
from nearsay.training.encoder.processor import Processor
from nearsay.training.evaluation.retrieval import evaluate_retrieval
from nearsay.training.evaluation.stored_features import StoredEncoder, StoredFeatures
from nearsay.training.evaluation.sts import evaluate_sts
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["LayerReport", "LayerScore", "evaluate_layers"]

# [CLS] comes out of the embeddings the same for every text, so that nothing can be told by it.
_SAYS_NOTHING = (LayerChoice(number=0), Pooling.CLS)


@dataclass(frozen=True, slots=True)
class LayerScore:
    """What one choice of layers and pooling reached."""

    layers: str  # a layer's number, or a combination, as `LayerChoice.parse` takes it
    pooling: Pooling
    figures: Mapping[str, float]  # by the measure's name; the first is the one that decides


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What the choices of one BERT reached; cls of layer 0 is left out, as it is the same for every text."""

    encoder: str
    layers: int  # transformer layers; layer 0 is the embeddings
    measure: str  # the figure that decides: "Spearman" times 100, or "nDCG@10" from 0 to 1
    scores: tuple[LayerScore, ...]  # by layer, the combinations after them, each by pooling
    truncated: int  # texts that were cut at the length limit
    seconds: float

    @property
    def best(self) -> LayerScore:
        """The highest score; of equal ones the first."""
        return max(self.scores, key=self.figure)

    def figure(self, score: LayerScore) -> float:
        """Give the figure that decides."""
        return score.figures[self.measure]

    def shown(self, score: LayerScore) -> str:
        """Give the figure that decides, with the decimals that its measure is told with."""
        return f"{self.figure(score):.{2 if self.measure == 'Spearman' else 4}f}"


def evaluate_layers(
    bert: BertFolder,
    judged: Sequence[ScoredPair] | RetrievalSet,
    *,
    device: str | None = None,
    precision: Precision = Precision.AUTO,
    progress: Callable[[int, int], None] | None = None,
) -> LayerReport:
    """Score every layer, and the combinations, under every pooling, as if each were an encoder of its own.

    judged:   scored pairs, measured as `evaluate_sts` does, or a retrieval set, as `evaluate_retrieval` does;
              each of the texts goes through the model once
    progress: called with different texts encoded and in all
    Raises BadInputError as those two do, and for a device that is not there.
    """
    started = perf_counter()
    chosen = choose_device(device)
    resolved = resolve_precision(Precision(precision), chosen, Processor.detect())
    scores = []
    truncated = 0
    with StoredFeatures(bert, _texts(judged), device=chosen, precision=resolved, progress=progress) as stored:
        for choice, pooling in product(layer_choices(stored.layers), Pooling):
            if (choice, pooling) != _SAYS_NOTHING:
                figures, truncated = _measured(StoredEncoder(stored, choice, pooling), judged)
                scores.append(LayerScore(str(choice), pooling, figures))
    return LayerReport(
        encoder=bert.name,
        layers=stored.layers,
        measure=next(iter(scores[0].figures)),
        scores=tuple(scores),
        truncated=truncated,
        seconds=perf_counter() - started,
    )


def _texts(judged: Sequence[ScoredPair] | RetrievalSet) -> dict[TextKind, list[str]]:
    if isinstance(judged, RetrievalSet):
        return {
            TextKind.QUERY: list(judged.queries.values()),
            TextKind.PASSAGE: list(judged.corpus.values()),
        }
    return {TextKind.PASSAGE: [text for pair in judged for text in (pair.sentence1, pair.sentence2)]}


def _measured(
    encoder: TextEncoder, judged: Sequence[ScoredPair] | RetrievalSet
) -> tuple[dict[str, float], int]:
    """The figures, the one that decides first, and how many texts were cut."""
    if isinstance(judged, RetrievalSet):
        found = evaluate_retrieval(encoder, judged)
        figures = {"nDCG@10": found.ndcg_at_10, "MRR@10": found.mrr_at_10, "recall@100": found.recall_at_100}
        return figures, found.truncated_documents + found.truncated_queries
    agreed = evaluate_sts(encoder, judged)
    return {"Spearman": agreed.spearman, "Pearson": agreed.pearson}, agreed.truncated
