"""`nearsay evaluate mlm`, `classifier`, `tagger` and `reader`: a BERT and the heads on it."""

from pathlib import Path
from typing import Literal

from nearsay.app.cli.command import FILE, GROUP, argument, command, option
from nearsay.app.cli.options import BERT, BREAKS, JSON, LABEL, LENGTH, PAIR, TEXT, Run, text_columns
from nearsay.app.cli.printing import print_notes, print_reports

_FILE = argument(type=FILE)


@command()
def mlm(
    texts: tuple[str, ...] = argument("TEXT…", required=True),
    bert: str = BERT,
    length: int = LENGTH(128),
    rows: int = option("Maximum number of rows to measure.", default=10_000, least=1),
    text: str | None = TEXT,
    breaks: Literal["blank-lines", "files", "headings"] = BREAKS,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure masked language modelling and next sentence prediction on held-out text.

    Rows and masks are the same for every BERT with the same vocabulary and a next-sentence head. Without such
    a head, or with a single document, only masked words are measured, on rows filled with sentences. A BERT
    that was pretrained with --masking causal is measured on the tokens that come next (clm).

    \b
    Example:
        nearsay evaluate mlm held-out.txt --bert my-bert
    """
    from nearsay.app.cli.train_pretrain import prepare_options
    from nearsay.training.bert.mlm import evaluate_mlm_of

    report, notes = evaluate_mlm_of(
        bert,
        texts,
        length=length,
        most_rows=rows,
        reading=prepare_options(text, breaks, one_sentence_a_line=False),
        device=run.device,
        precision=run.precision,
    )
    print_notes(notes)
    print_reports([report], as_json=as_json)


@command()
def classifier(
    model: str,
    file: Path = _FILE,
    label: str | None = LABEL,
    text: str | None = TEXT,
    pair: str | None = PAIR,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure a classifier: accuracy, F1, Matthews correlation and confusions.

    MODEL is the folder of a classifier. FILE is a tsv, csv or jsonl with a label and a text, or a label and
    two texts.

    \b
    Example:
        nearsay evaluate classifier my-intents intents-test.tsv
    """
    from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
    from nearsay.training.bert.heads.classifier import TextClassifier
    from nearsay.training.bert.heads.head_evaluation import evaluate_classifier

    texts = read_labelled_texts(file, text_columns(text, pair), label)
    print_notes(texts.notes)
    loaded = TextClassifier.load(model, device=run.device, precision=run.precision)
    report = evaluate_classifier(loaded, texts)
    print_reports([report], as_json=as_json)


@command()
def tagger(model: str, file: Path = _FILE, as_json: bool = JSON, run: Run = GROUP) -> None:
    """Measure a named entity tagger: precision, recall and F1 of whole entities.

    MODEL is the folder of a tagger. FILE has the CoNLL format: a word and its tag per line, and a blank line
    between sentences.

    \b
    Example:
        nearsay evaluate tagger my-tagger test.conll
    """
    from nearsay.data.tagged_sentences import read_tagged_sentences
    from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
    from nearsay.training.bert.heads.tagger import Tagger

    sentences = read_tagged_sentences(file)
    print_notes(sentences.notes)
    report = evaluate_tagger(Tagger.load(model, device=run.device, precision=run.precision), sentences)
    print_reports([report], as_json=as_json)


@command()
def reader(model: str, file: Path = _FILE, as_json: bool = JSON, run: Run = GROUP) -> None:
    """Measure a question answering model: exact match and F1 as in SQuAD, in percent.

    MODEL is the folder of a reader. FILE is JSON in the format of SQuAD 1.1 or 2.0.

    \b
    Example:
        nearsay evaluate reader my-reader dev-v1.1.json
    """
    from nearsay.data.answered_questions import read_answered_questions
    from nearsay.training.bert.heads.head_evaluation import evaluate_reader
    from nearsay.training.bert.heads.reader import Reader

    questions = read_answered_questions(file)
    report = evaluate_reader(Reader.load(model, device=run.device, precision=run.precision), questions)
    print_reports([report], as_json=as_json)
