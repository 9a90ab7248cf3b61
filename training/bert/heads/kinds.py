"""What each kind of head adds to its training: rows to examples, targets, figures, and the words for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearsay.data.answered_questions import AnsweredQuestions
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts
from nearsay.data.tagged_sentences import TaggedSentences
from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.heads.classifier import (
    TextClassifier,
    frozen_vectors,
    linear_scorer,
    network_scorer,
)
from nearsay.training.bert.heads.example import (
    ExampleTokens,
    HeadExample,
    question_examples,
    text_examples,
    word_examples,
)
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_evaluation import evaluate_classifier, evaluate_tagger
from nearsay.training.bert.heads.head_settings import (
    ClassifierSettings,
    HeadWay,
    ReaderSettings,
    TaggerSettings,
)
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork
from nearsay.training.bert.heads.reader import Reader
from nearsay.training.bert.heads.tagger import Tagger, feature_word_scorer, network_word_scorer
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.entity_f1 import EntityReport, entity_f1
from nearsay.training.evaluation.squad import best_null_threshold, evaluate_answers
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The vectors of a linear head, and how it is fitted; BadInputError for an invalid value.

    layers: of the BERT. None: a classifier uses the encoder's own sentence vectors (a probe), a tagger the
            last four layers concatenated, the best of the paper's table 7
    """

    layers: LayerChoice | None = None
    pooling: Pooling = Pooling.MEAN  # of a text's tokens, with `layers`
    regularisation: float | None = None  # C, smaller is stronger; None: chosen by validation
    precision: Precision = Precision.AUTO  # of the encoder's matrix products

    def __post_init__(self) -> None:
        if self.regularisation is not None and not self.regularisation > 0:
            raise BadInputError(f"the regularisation C is {self.regularisation}; give a number above 0")


class Texts:
    """A classifier's part of the run."""

    kind, best = HeadKind.CLASSIFIER, "accuracy"
    usage = 'from transformers import pipeline\n\nclassify = pipeline("text-classification", "{name}")\n'
    linear_usage = """
from nearsay.training.bert.heads.classifier import TextClassifier

classifier = TextClassifier.load("{name}")
classifier.predict(["a text"]).labels
"""

    def __init__(self, files: Mapping[str, LabelledTexts], length: int) -> None:
        """`files`: train, and perhaps dev and test; BadInputError when they do not go together."""
        self._files = files
        train = files["train"]
        self.labels = LabelSet.of_texts(train)
        for other in files.values():
            if other.are_pairs != train.are_pairs:
                one, two = (
                    ("pairs of texts", "single texts") if train.are_pairs else ("single texts", "pairs")
                )
                raise BadInputError(
                    f"{train.source} holds {one} and {other.source} {two}. "
                    "Give files of one kind, or name their columns"
                )
        self._targets = {
            name: self.labels.numbered([(row.label, row.line) for row in file.rows], file.source)
            for name, file in files.items()
        }
        self.length = length
        self.settings = ClassifierSettings(length=length, pairs=train.are_pairs)
        self.recorded: dict[str, JsonValue] = {"pairs": train.are_pairs, "labels": len(self.labels.names)}
        self.what = (
            f"A classifier of {'pairs of ' * train.are_pairs}texts with {len(self.labels.names)} labels"
        )

    def examples(self, tokens: ExampleTokens, watch: Watch) -> list[HeadExample]:
        """The training rows with their targets; what is cut is reported."""
        rows = text_examples(
            tokens,
            *self._files["train"].columns_of_text(),
            length=self.length,
            targets=self._targets["train"],
        )
        self._report_cut(rows.truncated, watch)
        return rows.examples

    def stand_on(
        self, network: HeadNetwork, tokens: ExampleTokens, device: str, precision: Precision
    ) -> None:
        """Take the network that is measured."""
        scorer = network_scorer(network, tokens, length=self.length, device=device, precision=precision)
        self._model = TextClassifier(scorer, self.labels, self.settings)
        if network.transformer.config.is_decoder:
            self.usage = self.linear_usage  # to transformers it is a tagger, of which the last token counts

    def freeze(
        self, base: BertFolder | Encoder, chosen: LinearFit, device: str, precision: Precision
    ) -> dict[str, JsonValue]:
        """Take the encoder that a linear layer stands on; gives what decides the run of it."""
        way, on = HeadWay.FEATURES, {"layers": str(chosen.layers), "pooling": str(chosen.pooling)}
        if isinstance(base, Encoder):
            self.length, way, on = max(base.max_tokens, 8), HeadWay.PROBE, {}
        self.settings = replace(
            self.settings,
            length=self.length,
            way=way,
            labels=self.labels.names,
            layers=on.get("layers"),
            pooling=on.get("pooling"),
        )
        self._vectors = frozen_vectors(base, self.settings, device=device, precision=precision)
        return {"way": str(way), **on, **({"length": self.length} if on else {})}

    def vectors(self, name: str, watch: Watch) -> NDArray[np.float32]:
        """What a linear layer sees of a file, (labels of all rows, width)."""
        found = self._vectors(*self._files[name].columns_of_text())
        if name == "train":
            self._report_cut(found.truncated, watch)
        return found.vectors

    def _report_cut(self, truncated: int, watch: Watch) -> None:
        if truncated:
            rows = len(self._files["train"])
            watch.report(f"{truncated:,} of {rows:,} rows are cut at {self.length} tokens")

    def targets(self, name: str) -> list[NDArray[np.int64]]:
        """The numbers of each row's labels."""
        return list(self._targets[name][:, None])

    def add(self, head: LinearHead) -> None:
        """Take the linear layer that is measured."""
        self._model = TextClassifier(linear_scorer(self._vectors, head), self.labels, self.settings)

    def figures(self, gold: Sequence[NDArray[np.int64]], said: NDArray[np.int64]) -> dict[str, float]:
        """The figures of the labels that were said, one row after the other."""
        return {"accuracy": float((said == np.concatenate(gold)).mean())}

    def measured(self, name: str) -> dict[str, float]:
        """The figures on a file, for the run's log; the best one's first."""
        return evaluate_classifier(self._model, self._files[name]).metrics()


class Sentences:
    """A tagger's part of the run."""

    kind, best = HeadKind.TAGGER, "f1"
    usage = (
        "from transformers import pipeline\n\n"
        'tag = pipeline("token-classification", "{name}", aggregation_strategy="first")\n'
    )
    linear_usage = """
from nearsay.training.bert.heads.tagger import Tagger

tagger = Tagger.load("{name}")
tagger.predict([["Ada", "wrote", "it"]])
"""

    def __init__(self, files: Mapping[str, TaggedSentences], length: int) -> None:
        """`files`: train, and perhaps dev and test; BadInputError when they do not go together."""
        self._files = files
        self.labels = LabelSet.of_tags(files["train"])
        self._targets = {name: self.labels.of_sentences(file) for name, file in files.items()}
        self.length = length
        self.settings = TaggerSettings(length=length)
        self.recorded: dict[str, JsonValue] = {"labels": len(self.labels.names)}
        self.what = f"A tagger of {len(self.labels.names) // 2} types of entities"

    def _words(self, name: str) -> list[tuple[str, ...]]:
        return [sentence.words for sentence in self._files[name].sentences]

    def examples(self, tokens: ExampleTokens, watch: Watch) -> list[HeadExample]:
        """The training rows with their targets; what is cut is reported."""
        del watch  # nothing is cut
        rows = word_examples(tokens, self._words("train"), length=self.length, targets=self._targets["train"])
        return [row.example for row in rows]

    def stand_on(
        self, network: HeadNetwork, tokens: ExampleTokens, device: str, precision: Precision
    ) -> None:
        """Take the network that is measured."""
        scorer = network_word_scorer(network, pad_id=tokens.special.pad, device=device, precision=precision)
        self._model = Tagger(scorer, tokens, self.labels, self.settings)

    def freeze(
        self, base: BertFolder | Encoder, chosen: LinearFit, device: str, precision: Precision
    ) -> dict[str, JsonValue]:
        """Take the encoder that a linear layer stands on; gives what decides the run of it."""
        if isinstance(base, Encoder) or chosen.layers is None:
            raise TypeError("a tagger stands on layers of a BERT")
        self._tokens = ExampleTokens(base.tokenizer)
        self._features = FrozenFeatures(base, chosen.layers, device=device, precision=precision)
        self.settings = TaggerSettings(
            length=self.length, way=HeadWay.FEATURES, layers=str(chosen.layers), labels=self.labels.names
        )
        return {"way": str(HeadWay.FEATURES), "layers": str(chosen.layers), "length": self.length}

    def on_last_layer(self, base: BertFolder) -> bool:
        """Whether its features are those of the last layer alone."""
        last = int(base.config.num_hidden_layers)
        return self._features.layers.taken(last) == (last,)

    def vectors(self, name: str, watch: Watch) -> NDArray[np.float32]:
        """What a linear layer sees of a file, (labels of all rows, width)."""
        del watch
        return self._features.of_words(word_examples(self._tokens, self._words(name), length=self.length))

    def targets(self, name: str) -> list[NDArray[np.int64]]:
        """The numbers of each row's labels."""
        return self._targets[name]

    def add(self, head: LinearHead) -> None:
        """Take the linear layer that is measured."""
        scorer = feature_word_scorer(self._features, head)
        self._model = Tagger(scorer, self._tokens, self.labels, self.settings)

    def figures(self, gold: Sequence[NDArray[np.int64]], said: NDArray[np.int64]) -> dict[str, float]:
        """The figures of the labels that were said, one row after the other."""
        names = np.array(self.labels.names, dtype=object)
        ends = np.cumsum([0, *(len(sentence) for sentence in gold)])
        tags = [names[said[start:end]].tolist() for start, end in pairwise(ends)]
        return _entity_metrics(entity_f1([names[sentence].tolist() for sentence in gold], tags))

    def measured(self, name: str) -> dict[str, float]:
        """The figures on a file, for the run's log; the best one's first."""
        return _entity_metrics(evaluate_tagger(self._model, self._files[name]))


class Questions:
    """A reader's part of the run.

    Where questions without an answer are among the training rows, it may say that there is none: its
    threshold is the one with the highest F1 on dev, or 0 without dev.
    """

    kind, best = HeadKind.READER, "f1"
    usage = """
from nearsay.training.bert.heads.reader import Reader

reader = Reader.load("{name}")
reader.predict([("Who wrote it?", "Ada wrote it.")])[0].text
"""
    labels = None
    what = "A reader that finds answers in a text"

    def __init__(self, files: Mapping[str, AnsweredQuestions], settings: ReaderSettings) -> None:
        """`files`: train, and perhaps dev and test; BadInputError when they do not go together."""
        self._files = files
        self.length = settings.length
        self.settings = replace(settings, threshold=None)
        self.recorded: dict[str, JsonValue] = {
            name: getattr(settings, name) for name in ("step", "question", "answer", "candidates")
        }
        self._threshold: float | None = None  # None: each file is measured with its own best one
        self._may_say_nothing = files["train"].some_have_no_answer

    def examples(self, tokens: ExampleTokens, watch: Watch) -> list[HeadExample]:
        """The training rows with their targets; what is cut is reported."""
        questions = self._files["train"].questions
        rows = question_examples(
            tokens,
            [(question.question, question.context) for question in questions],
            lengths=self.settings.lengths,
            answers=[question.answers[0] if question.answers else None for question in questions],
        )
        if rows.truncated:
            watch.report(f"{rows.truncated:,} questions are cut at {self.settings.question} tokens")
        return [row.example for row in rows.examples]

    def stand_on(
        self, network: HeadNetwork, tokens: ExampleTokens, device: str, precision: Precision
    ) -> None:
        """Take the network that is measured."""
        self._model = Reader(network, tokens, self.settings, device=device, precision=precision)

    def measured(self, name: str) -> dict[str, float]:
        """The figures on a file, for the run's log; the best one's first."""
        return self._measured(name)[0]

    def settle(self) -> dict[str, JsonValue]:
        """Choose what is left to choose when the weights are."""
        if self._may_say_nothing:
            self._threshold = self._measured("dev")[1] if "dev" in self._files else 0.0
            self.settings = replace(self.settings, threshold=self._threshold)
        return {"threshold": self._threshold}

    def _measured(self, name: str) -> tuple[dict[str, float], float | None]:
        """The figures as shares, F1 first; and the threshold above whose score "" is said, None for never."""
        questions = self._files[name].questions
        said = self._model.predict([(question.question, question.context) for question in questions])
        texts = {question.id: answer.text for question, answer in zip(questions, said, strict=True)}
        nulls = {
            question.id: answer.null_difference for question, answer in zip(questions, said, strict=True)
        }
        threshold = self._threshold
        if threshold is None and self._may_say_nothing:
            threshold = best_null_threshold(questions, texts, nulls)
        if threshold is not None:
            texts = {row: "" if nulls[row] > threshold else text for row, text in texts.items()}
        report = evaluate_answers(questions, texts)
        return {"f1": report.f1 / 100, "exact_match": report.exact_match / 100}, threshold


def _entity_metrics(report: EntityReport) -> dict[str, float]:
    overall = report.overall
    return {
        "f1": overall.f1,
        "precision": overall.precision,
        "recall": overall.recall,
        "tag_accuracy": report.tag_accuracy,
    }
