"""Training a reader by fine-tuning a BERT."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nearsay.data.answered_questions import AnsweredQuestions
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens, question_examples
from nearsay.training.bert.heads.fine_tuning import FineTuning, fine_tune, fresh_network, head_device
from nearsay.training.bert.heads.head_evaluation import evaluate_reader
from nearsay.training.bert.heads.head_folder import HeadFolder, HeadResult, save_network
from nearsay.training.bert.heads.head_settings import ReaderSettings
from nearsay.training.bert.heads.network import HeadKind
from nearsay.training.bert.heads.reader import ReadAnswer, Reader
from nearsay.training.bert.heads.train_classifier import require_positions
from nearsay.training.evaluation.squad import SquadReport, best_null_threshold, evaluate_answers
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["train_reader"]

_USAGE = """
from nearsay.training.bert.heads.reader import Reader

reader = Reader.load("{name}")
reader.predict([("Who wrote it?", "Ada wrote it.")])[0].text
"""


def train_reader(
    train: AnsweredQuestions,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: AnsweredQuestions | None = None,
    test: AnsweredQuestions | None = None,
    options: FineTuning | None = None,
    settings: ReaderSettings | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Fine-tune a BERT with a `BertForQuestionAnswering` on top, into the folder `out`, or go on there.

    Of a question with several answers the first one is learned. Where questions without an answer are among
    the training rows, the reader may say that there is none: its threshold is the one with the highest F1 on
    dev, or 0 without dev.

    dev:      measured after each epoch; the weights with the highest F1 are kept. None: the last ones
    test:     measured at the end
    settings: lengths of rows, questions and answers; its threshold is not read
    Raises BadInputError for questions and settings that cannot be trained with, and DiskFullError.

    Devlin et al. 2019, sections 4.2 and 4.3, https://arxiv.org/abs/1810.04805
    """
    chosen, watch = options or FineTuning(), watch or Watch()
    how = replace(settings or ReaderSettings(), threshold=None)
    may_say_nothing = train.some_have_no_answer
    place, precision = head_device(device, chosen.precision)
    base = load_bert(bert)
    require_positions(base, how.length)
    tokens = ExampleTokens(base.tokenizer)
    folder = HeadFolder(
        out,
        HeadKind.READER,
        lineage=base.lineage,
        weights_sha256=base.weights_sha256,
        data={"train": train, "dev": dev, "test": test},
        settings={
            **chosen.settings(),
            "length": how.length,
            "step": how.step,
            "question": how.question,
            "answer": how.answer,
            "candidates": how.candidates,
        },
        environment=RunEnvironment.here(place, chosen.precision),
    )
    if folder.begin(exact=chosen.exact_resume):
        watch.report(f"going on with the run in {out}")
    rows = question_examples(
        tokens,
        [(question.question, question.context) for question in train.questions],
        lengths=how.lengths,
        answers=[question.answers[0] if question.answers else None for question in train.questions],
    )
    if rows.truncated:
        watch.report(f"{rows.truncated:,} questions are cut at {how.question} tokens")
    network = fresh_network(base, HeadKind.READER, None, seed=chosen.seed, device=place)

    def reader(threshold: float | None) -> Reader:
        return Reader(network, tokens, replace(how, threshold=threshold), device=place, precision=precision)

    def threshold_on(questions: AnsweredQuestions | None, said: Sequence[ReadAnswer]) -> float | None:
        return None if questions is None or not may_say_nothing else _threshold(questions, said)

    def measure(questions: AnsweredQuestions) -> tuple[dict[str, float], float | None]:
        said = _said(reader(None), questions)
        threshold = threshold_on(questions, said)
        return _metrics(_scored(questions, said, threshold)), threshold

    run = fine_tune(
        HeadKind.READER,
        network,
        [row.example for row in rows.examples],
        folder.run,
        chosen,
        pad_id=tokens.special.pad,
        device=place,
        measure=None if dev is None else lambda: measure(dev)[0],
        best="f1",
        watch=watch,
    )
    if not run.finished:
        return HeadResult(finished=False, seconds=run.seconds)
    threshold = 0.0 if may_say_nothing else None
    if dev is not None and may_say_nothing:
        threshold = measure(dev)[1]
    result = HeadResult(
        finished=True,
        seconds=run.seconds,
        training=run.metrics,
        dev=run.evaluation,
        test={} if test is None else _metrics(evaluate_reader(reader(threshold), test)),
        steps=run.steps,
        chosen={"threshold": threshold},
    )

    def save(folder: Path) -> None:
        save_network(network, base, folder)
        replace(how, threshold=threshold).save(folder)

    folder.finish(
        save,
        result,
        what=f"A reader that finds answers in a text, fine-tuned from {base.name}.",
        usage=_USAGE,
        library="transformers",
    )
    return result


def _said(reader: Reader, questions: AnsweredQuestions) -> list[ReadAnswer]:
    return reader.predict([(question.question, question.context) for question in questions.questions])


def _threshold(questions: AnsweredQuestions, said: Sequence[ReadAnswer]) -> float:
    ids = [question.id for question in questions.questions]
    return best_null_threshold(
        questions.questions,
        {row_id: answer.text for row_id, answer in zip(ids, said, strict=True)},
        {row_id: answer.null_difference for row_id, answer in zip(ids, said, strict=True)},
    )


def _scored(questions: AnsweredQuestions, said: Sequence[ReadAnswer], threshold: float | None) -> SquadReport:
    """Score best spans, or "" where its score is above the threshold."""
    return evaluate_answers(
        questions.questions,
        {
            question.id: "" if threshold is not None and answer.null_difference > threshold else answer.text
            for question, answer in zip(questions.questions, said, strict=True)
        },
    )


def _metrics(report: SquadReport) -> dict[str, float]:
    """The figures as shares, for a run's log; F1 first."""
    return {"f1": report.f1 / 100, "exact_match": report.exact_match / 100}
