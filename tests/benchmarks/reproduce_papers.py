"""What the papers promise: the published figures, and what measures ours beside them.

Each experiment is a paper's table or a part of it, in the order in which they are run; `there` and `here` say
how the two columns of figures differ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reproduce_pretraining import Bench, Figure, bert, bert_of_passes
from reproduce_tasks import (
    ner_f1,
    nli_accuracy,
    nli_encoder,
    parameters,
    reader_f1,
    seconds,
    sts,
    sts_encoder,
    teacher_or_student,
)

from nearsay.training.bert.layers import LayerChoice
from nearsay.training.sentence.fine_tuning.settings import SentencePooling
from nearsay.training.sentence.objectives.config import Concatenation

__all__ = ["EXPERIMENTS", "Experiment", "Row"]

BERT_URL = "https://arxiv.org/abs/1810.04805"
SBERT_URL = "https://arxiv.org/abs/1908.10084"
MNLI, CAD = "MNLI-m accuracy", "NLI accuracy"
SQUAD, XQUAD = "SQuAD 1.1 F1", "XQuAD F1"
STS, WEIGHTS, SECONDS = "Spearman", "million weights", "seconds"


@dataclass(frozen=True)
class Row:
    """A row of a paper's table."""

    name: str
    theirs: str  # the name of the published figure
    published: float
    ours: str  # the name of our figure
    measure: Callable[[Bench], Figure]

    @property
    def key(self) -> str:
        """What its figure is kept under."""
        return f"{self.name}: {self.ours}"

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("name", "theirs", "published", "ours", "key")}


@dataclass(frozen=True)
class Experiment:
    """A paper's table, or a part of it."""

    name: str
    title: str
    paper: str
    url: str
    there: str  # what the published figures are of
    here: str  # what ours are of
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, object]:
        told = {name: getattr(self, name) for name in ("name", "title", "paper", "url", "there", "here")}
        return {**told, "rows": [row.to_json() for row in self.rows]}


def nli_of(name: str, bench: Bench) -> Figure:
    return nli_accuracy(bench, bert(bench, name))


def reader_of(name: str, bench: Bench) -> Figure:
    return reader_f1(bench, bert(bench, name))


def ner_of(layers: str, bench: Bench) -> Figure:
    return ner_f1(bench, bert(bench, "mlm-nsp"), LayerChoice.parse(layers))


def pooled(pooling: SentencePooling, data: str, bench: Bench) -> Figure:
    encoder = nli_encoder(bench, pooling) if data == "nli" else sts_encoder(bench, pooling)
    return sts(bench, encoder, "dev")


def concatenated(concatenation: Concatenation, bench: Bench) -> Figure:
    return sts(bench, nli_encoder(bench, concatenation=concatenation), "dev")


def trained_on(data: str, bench: Bench) -> Figure:
    ways = {
        "nothing": lambda: bert(bench, "mlm-nsp"),
        "nli": lambda: nli_encoder(bench),
        "sts": lambda: sts_encoder(bench),
        "both": lambda: sts_encoder(bench, base=nli_encoder(bench)),
    }
    return sts(bench, ways[data](), "test")


def distilled(figure: str, which: str, bench: Bench) -> Figure:
    if figure == SECONDS:
        return seconds(bench)[which]
    if figure == WEIGHTS:
        return parameters(bench, which)
    return sts(bench, teacher_or_student(bench, which), "dev")


def masked(way: str, bench: Bench) -> Figure:
    return nli_accuracy(bench, bert_of_passes(bench, way))


EXPERIMENTS = (
    Experiment(
        "bert-ablation",
        "BERT, table 5: what pretraining predicts",
        "Devlin et al. 2019",
        BERT_URL,
        "BERT base, a million steps on 3,300 million words, dev sets",
        "our BERT; counterfactual NLI, test; XQuAD English, its last fifth. Without next sentences, rows "
        "are filled with sentences. What was pretrained from left to right is fine-tuned from left to right, "
        "and tells the label at the last token",
        (
            Row("masked words, next sentences", MNLI, 84.4, CAD, partial(nli_of, "mlm-nsp")),
            Row("masked words", MNLI, 83.9, CAD, partial(nli_of, "mlm")),
            Row("left to right", MNLI, 82.1, CAD, partial(nli_of, "left-to-right")),
            Row("masked words, next sentences", SQUAD, 88.5, XQUAD, partial(reader_of, "mlm-nsp")),
            Row("masked words", SQUAD, 87.9, XQUAD, partial(reader_of, "mlm")),
            Row("left to right", SQUAD, 77.8, XQUAD, partial(reader_of, "left-to-right")),
        ),
    ),
    Experiment(
        "sbert-pooling",
        "SBERT, table 6: pooling",
        "Reimers & Gurevych 2019",
        SBERT_URL,
        "BERT base; SNLI and MultiNLI, or STS Benchmark; STS Benchmark, dev",
        "our BERT; counterfactual NLI and SNLI's dev file, or STS Benchmark; STS Benchmark, dev",
        tuple(
            Row(f"{pooling}, trained on {title}", STS, published, STS, partial(pooled, pooling, data))
            for data, title, figures in (
                ("nli", "NLI", (80.78, 79.07, 79.80)),
                ("sts", "STS Benchmark", (87.44, 69.92, 86.62)),
            )
            for pooling, published in zip(
                (SentencePooling.MEAN, SentencePooling.MAX, SentencePooling.CLS), figures, strict=True
            )
        ),
    ),
    Experiment(
        "sbert-concatenation",
        "SBERT, table 6: what the classifier sees of a pair",
        "Reimers & Gurevych 2019",
        SBERT_URL,
        "BERT base; SNLI and MultiNLI; STS Benchmark, dev",
        "our BERT; counterfactual NLI and SNLI's dev file; STS Benchmark, dev",
        tuple(
            Row(f"({way})".replace("*", " × "), STS, published, STS, partial(concatenated, way))
            for way, published in (
                (Concatenation.BOTH, 66.04),
                (Concatenation.DIFFERENCE, 69.78),
                (Concatenation.PRODUCT, 70.54),
                (Concatenation.DIFFERENCE_PRODUCT, 78.37),
                (Concatenation.BOTH_PRODUCT, 77.44),
                (Concatenation.BOTH_DIFFERENCE, 80.78),
                (Concatenation.ALL, 80.44),
            )
        ),
    ),
    Experiment(
        "sbert-training",
        "SBERT, tables 1 and 2: what it is trained on",
        "Reimers & Gurevych 2019",
        SBERT_URL,
        "BERT base; SNLI and MultiNLI, STS Benchmark (ten seeds); STS Benchmark, test",
        "our BERT; counterfactual NLI and SNLI's dev file, STS Benchmark; STS Benchmark, test",
        (
            Row("nothing: the mean of BERT's vectors", STS, 46.35, STS, partial(trained_on, "nothing")),
            Row("NLI", STS, 77.03, STS, partial(trained_on, "nli")),
            Row("STS Benchmark", STS, 84.67, STS, partial(trained_on, "sts")),
            Row("NLI, then STS Benchmark", STS, 85.35, STS, partial(trained_on, "both")),
        ),
    ),
    Experiment(
        "bert-features",
        "BERT, table 7: features of which layers",
        "Devlin et al. 2019",
        BERT_URL,
        "BERT base, cased; CoNLL-2003, dev, by a BiLSTM on the features; weighted sums; five seeds",
        "our BERT, uncased; WNUT-17, test, by a linear layer on the features; plain sums",
        tuple(
            Row(name, "entity F1", published, "entity F1", partial(ner_of, layers))
            for name, layers, published in (
                ("embeddings", "0", 91.0),
                ("second to last layer", "second-to-last", 95.6),
                ("last layer", "last", 94.9),
                ("sum of the last four", "sum-last-4", 95.9),
                ("last four, concatenated", "concat-last-4", 96.1),
                ("sum of all", "sum-all", 95.5),
            )
        ),
    ),
    Experiment(
        "spanbert",
        "SpanBERT, table 6: what is masked",
        "Joshi et al. 2020",
        "https://arxiv.org/abs/1907.10529",
        "BERT large, next sentences too; SQuAD 2.0, dev",
        "our BERT, next sentences too; XQuAD English, its last fifth",
        (
            Row("tokens", "SQuAD 2.0 F1", 83.8, XQUAD, partial(reader_of, "mlm-nsp")),
            Row("spans", "SQuAD 2.0 F1", 85.4, XQUAD, partial(reader_of, "spans-nsp")),
        ),
    ),
    Experiment(
        "distilbert",
        "DistilBERT, tables 1 and 3: half of the layers",
        "Sanh et al. 2019",
        "https://arxiv.org/abs/1910.01108",
        "BERT base, 12 layers, distilled as a language model; STS Benchmark, dev, fine-tuned on it; all of "
        "it on a CPU, one pair at a time",
        "all-MiniLM-L6-v2, 6 layers, distilled by its sentence vectors; STS Benchmark, dev, not fine-tuned "
        "on it; some of its sentences on a CPU, one at a time",
        (
            Row("teacher", "STS-B", 89.0, STS, partial(distilled, STS, "teacher")),
            Row("student", "STS-B", 86.9, STS, partial(distilled, STS, "student")),
            Row("teacher", WEIGHTS, 110.0, WEIGHTS, partial(distilled, WEIGHTS, "teacher")),
            Row("student", WEIGHTS, 66.0, WEIGHTS, partial(distilled, WEIGHTS, "student")),
            Row("teacher", SECONDS, 668.0, SECONDS, partial(distilled, SECONDS, "teacher")),
            Row("student", SECONDS, 410.0, SECONDS, partial(distilled, SECONDS, "student")),
        ),
    ),
    Experiment(
        "roberta-masking",
        "RoBERTa, table 1: masks that stay or change",
        "Liu et al. 2019",
        "https://arxiv.org/abs/1907.11692",
        "BERT base; each of ten masks of a row is seen four times, or every one once; medians of five seeds",
        "our BERT, in passes over a small text, each a run that warms up anew; the first pass's rows and "
        "masks are repeated, or made anew; counterfactual NLI, test",
        (
            Row("static", MNLI, 84.3, CAD, partial(masked, "static")),
            Row("dynamic", MNLI, 84.0, CAD, partial(masked, "dynamic")),
        ),
    ),
)
