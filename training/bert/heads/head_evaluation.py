"""How good a head is on a file of judged rows."""

from time import perf_counter

from nearsay.data.answered_questions import AnsweredQuestions
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts
from nearsay.data.tagged_sentences import TaggedSentences
from nearsay.training.bert.heads.classifier import TextClassifier
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.reader import Reader
from nearsay.training.bert.heads.tagger import Tagger
from nearsay.training.evaluation.entity_f1 import EntityReport, entity_f1
from nearsay.training.evaluation.label_metrics import (
    accuracy,
    confusions,
    f1_score_of,
    macro_f1,
    matthews_correlation,
)
from nearsay.training.evaluation.reports import ClassifierReport
from nearsay.training.evaluation.squad import SquadReport, evaluate_answers


def evaluate_classifier(classifier: TextClassifier, texts: LabelledTexts) -> ClassifierReport:
    """Compare a classifier's predictions with a file's labels.

    Raises BadInputError for a label that the classifier does not know, with its line, and for pairs if it
    takes single texts or vice versa.
    """
    if classifier.settings.pairs not in {None, texts.are_pairs}:
        there, taken = ("pairs of texts", "single texts") if texts.are_pairs else ("single texts", "pairs")
        raise BadInputError(
            f"{texts.source} holds {there}, and the classifier takes {taken}. Name the columns that it takes"
        )
    LabelSet(classifier.labels).numbered([(row.label, row.line) for row in texts.rows], texts.source)
    begun = perf_counter()
    gold = [row.label for row in texts.rows]
    said = classifier.predict(*texts.columns_of_text())
    positive = classifier.labels[1] if len(classifier.labels) == 2 else None
    seen = positive is not None and positive in {*gold, *said.labels}
    return ClassifierReport(
        texts=len(gold),
        accuracy=accuracy(gold, said.labels),
        macro_f1=macro_f1(gold, said.labels),
        matthews=matthews_correlation(gold, said.labels),
        positive=positive,
        binary_f1=None if positive is None else f1_score_of(gold, said.labels, positive) if seen else 0.0,
        truncated=said.truncated,
        seconds=perf_counter() - begun,
        confusions=tuple(confusions(gold, said.labels)),
    )


def evaluate_tagger(tagger: Tagger, sentences: TaggedSentences) -> EntityReport:
    """Compare a tagger's entities with a file's; BadInputError for an unknown tag."""
    LabelSet(tagger.labels).of_sentences(sentences)
    said = tagger.predict([sentence.words for sentence in sentences.sentences])
    return entity_f1([sentence.tags for sentence in sentences.sentences], said)


def evaluate_reader(reader: Reader, questions: AnsweredQuestions) -> SquadReport:
    """Compare a reader's answers with a file's, with SQuAD's metrics."""
    said = reader.predict([(question.question, question.context) for question in questions.questions])
    return evaluate_answers(
        questions.questions,
        {question.id: answer.text for question, answer in zip(questions.questions, said, strict=True)},
    )
