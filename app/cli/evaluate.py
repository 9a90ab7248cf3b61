"""`nearsay evaluate`: measures encoders, how they are stored and run, tokenizers, and heads."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nearsay.app.cli.command import FILE, FOLDER, GROUP, CommandGroup, argument, command, option
from nearsay.app.cli.evaluate_judged import (
    classification,
    clustering,
    nli,
    pairs,
    reranking,
    retrieval,
    sts,
    triplets,
)
from nearsay.app.cli.options import (
    BERT,
    BREAKS,
    ENCODER,
    JSON,
    LABEL,
    LENGTH,
    ONE_ENCODER,
    ONE_SENTENCE_A_LINE,
    PAIR,
    PLOT,
    RESAMPLES,
    SAMPLE,
    SEED,
    SPLIT,
    TEXT,
    TITLE,
    Run,
    TextFields,
    text_columns,
)
from nearsay.app.cli.printing import print_json, print_notes, print_reports
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
    from nearsay.training.evaluation.proxies.panel import ProxyScore


_FILE = argument(type=FILE)
_SEVERAL_ENCODERS = option(
    "Name or folder of the encoder. Can be repeated.",
    "--encoder",
    default=["all-MiniLM-L6-v2"],
    type=ENCODER,
)
_SCORED_PAIRS = option("File of scored pairs, as for `nearsay evaluate sts`.", type=FILE)
_JUDGED_CORPUS = option("Folder of a judged corpus, as for `nearsay evaluate retrieval`.", type=FOLDER)


@command()
def mlm(
    texts: tuple[str, ...] = argument("TEXT…", required=True),
    bert: str = BERT,
    length: int = LENGTH(128),
    rows: int = option("Maximum number of rows to measure.", default=10_000, least=1),
    text: str | None = TEXT,
    breaks: Literal["blank-lines", "files", "headings"] = BREAKS,
    one_sentence_a_line: bool = ONE_SENTENCE_A_LINE,
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
        reading=prepare_options(text, breaks, one_sentence_a_line=one_sentence_a_line),
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


@command()
def compression(
    encoder: str = ONE_ENCODER,
    sts: Path | None = _SCORED_PAIRS,
    retrieval: Path | None = _JUDGED_CORPUS,
    split: str = SPLIT,
    dimensions: tuple[int, ...] = option(
        "Number of dimensions of the vectors. Can be repeated.", "--dimension", metavar="N"
    ),
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure an encoder's vectors with fewer bits and fewer dimensions.

    Reports Spearman's correlation (times 100) on scored pairs, nDCG@10 on a judged corpus, and the loss
    against float32. Use `nearsay evaluate compare` for smaller encoders.

    \b
    Example:
        nearsay evaluate compression --sts stsb/test.tsv --retrieval scifact/ --dimension 256 --dimension 128
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.sentence.compression.comparison import compare_compressions
    from nearsay.training.sentence.encoder import Encoder

    if not sts and not retrieval:
        raise click.UsageError("specify what to measure on: --sts FILE, --retrieval FOLDER or both")
    pairs, corpus = _judged(sts, retrieval, split)
    with ProgressBar("encoding", unit="texts") as bar:
        rows = compare_compressions(
            Encoder.load(encoder, device=run.device, precision=run.precision),
            pairs=pairs,
            retrieval=corpus,
            dimensions=dimensions,
            progress=bar.at,
        )
    print_reports(rows, as_json=as_json)


@command()
def layers(
    sts: Path | None = _SCORED_PAIRS,
    retrieval: Path | None = _JUDGED_CORPUS,
    split: str = SPLIT,
    encoder: str = ONE_ENCODER,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure every layer of an encoder, and combinations of layers, with each pooling.

    Reports Spearman's correlation (times 100) on scored pairs, or nDCG@10 on a judged corpus. Layer 0 is the
    embeddings, whose [CLS] vector is the same for every text. Vectors of all layers are stored in a temporary
    file in the folder that TMPDIR names.

    \b
    Example:
        nearsay evaluate layers --sts stsb/test.tsv --plot layers.png
        nearsay evaluate layers --retrieval scifact/ --encoder my-bert/
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.picture import write_picture
    from nearsay.training.bert.bert_folder import load_bert
    from nearsay.training.evaluation.judged.layer_plot import layer_figure
    from nearsay.training.evaluation.judged.layers import evaluate_layers

    if bool(sts) is bool(retrieval):
        raise click.UsageError("specify what to measure on: --sts FILE or --retrieval FOLDER")
    pairs, corpus = _judged(sts, retrieval, split)
    bert = load_bert(encoder)
    with ProgressBar("encoding") as bar:
        report = evaluate_layers(
            bert,
            corpus or pairs,
            device=run.device,
            precision=run.precision,
            progress=bar.at,
        )
    if as_json:
        best = report.best
        for score in report.scores:
            row = {"encoder": report.encoder, **score.to_json(), **score.figures}
            print_json(row | {"best": score is best})
    else:
        print_reports(report.scores, as_json=False)
        cut = f", {counted(report.truncated, 'text')} truncated" if report.truncated else ""
        scale = " times 100" if report.measure == "Spearman" else ""
        print_notes([f"{report.measure}{scale}, {report.seconds:,.1f} s{cut}"])
    if plot:  # last: what was measured is printed, whatever becomes of the file
        write_picture(plot, lambda: layer_figure(report))


def _judged(
    sts: Path | None, retrieval: Path | None, split: str
) -> "tuple[list[ScoredPair], RetrievalSet | None]":
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs

    corpus = read_retrieval_set(retrieval, split) if retrieval else None
    print_notes(corpus.notes if corpus else ())
    return read_scored_pairs(sts) if sts else [], corpus


@command()
def unlabelled(
    sources: tuple[str, ...] = argument("FILE…", required=True),
    encoders: tuple[str, ...] = _SEVERAL_ENCODERS,
    title: str | None = TITLE(shown="guessed and reported"),
    sample: int = SAMPLE(500, least=2),
    seed: int = SEED(0),
    fields: TextFields = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure proxies for the quality of encoders on a corpus without judgements.

    FILE is a file, folder, quoted glob, or - for standard input, as in `documents add`. No proxy measures
    search quality; each line says what its proxy shows and what it does not. To measure search quality, judge
    some queries.

    \b
    Example:
        nearsay evaluate unlabelled papers.jsonl --text abstract --encoder all-MiniLM-L6-v2
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.proxies.corpus import read_unjudged_corpus
    from nearsay.training.evaluation.proxies.panel import UnjudgedTexts, encoder_panel

    corpus = read_unjudged_corpus(sources, fields.reading(title), most=sample, seed=seed)
    print_notes(corpus.notes)
    texts = UnjudgedTexts(corpus, seed=seed)
    scores: list[ProxyScore] = []
    try:
        for name in encoders:
            encoder = run.loaded(name)
            with ProgressBar(f"encoding with {encoder.name}", unit="texts") as bar:
                scores += encoder_panel(encoder, texts, progress=bar.at)
    finally:  # what one encoder reached is not lost with the next
        print_reports(scores, as_json=as_json)


@command()
def tokenizer(
    sources: tuple[str, ...] = argument("TEXT…", required=True),
    encoders: tuple[str, ...] = _SEVERAL_ENCODERS,
    lengths: tuple[int, ...] = option(
        "Maximum number of tokens in a sequence. Can be repeated.",
        "--length",
        metavar="N",
        default=(64, 128, 256, 512),
    ),
    new_size: int | None = option(
        "Number of tokens in the new vocabulary.", metavar="N", shown="as many as the encoder's"
    ),
    no_new: bool = option("Do not train a new vocabulary for comparison."),
    sample: int = SAMPLE(50_000),
    seed: int = SEED(0),
    fields: TextFields = GROUP,
    as_json: bool = JSON,
) -> None:
    """Measure how well the tokenizer of an encoder fits your texts.

    TEXT is a file, folder, quoted glob, or - for standard input, as in `train vocabulary`. A word is a run of
    letters and digits. For comparison a new vocabulary is trained on one half of the texts and measured on
    the other half.

    \b
    Example:
        nearsay evaluate tokenizer papers.jsonl --text abstract --encoder all-MiniLM-L6-v2
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.reading import read
    from nearsay.training.evaluation.text_sample import TextSample
    from nearsay.training.evaluation.tokenizer_fit import encoder_fit

    with ProgressBar("reading") as bar:
        reading = read(sources, fields.reading())
        drawn = TextSample(reading.texts(bar.at), sample, seed=seed)
    print_notes(reading.notes)
    with ProgressBar("tokenizing") as bar:
        fits = []
        for index, encoder in enumerate(encoders):

            def look(done: int, before: int = index * len(drawn)) -> None:
                bar.at(before + done, len(encoders) * len(drawn))

            fits.append(
                encoder_fit(encoder, drawn, lengths=lengths, new_size=new_size, new=not no_new, listener=look)
            )
    print_notes([drawn.note] if drawn.note else [])
    print_reports([replace(fit, texts_in_all=drawn.seen, seed=seed) for fit in fits], as_json=as_json)


@command()
def compare(
    encoders: tuple[str, ...] = argument("ENCODER…", required=True, type=ENCODER),
    suite: Path = option("Folder with judged sets, and with folders of them.", type=FOLDER),
    only: tuple[str, ...] = option(
        "Name or pattern of a judged set to measure on. Can be repeated.", metavar="NAME", shown="all"
    ),
    split: str = option(
        "Split to measure on: judgements in qrels/SPLIT.tsv, and files named SPLIT.", default="test"
    ),
    sample: int | None = SAMPLE(shown="all", least=2),
    seed: int = SEED(0),
    draws: int = RESAMPLES,
    rounds: int = option("Number of times the speed of each encoder is measured; 0 skips it.", default=3),
    markdown: bool = option("Print the table in Markdown."),
    plot: Path | None = PLOT,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure several encoders on every judged set of a folder, in one table.

    The kind of a set is detected from its files and columns: a corpus with queries and judgements; two texts
    and a score, a label of 0 or 1, or premise and hypothesis; anchor, positive and negative; label and text.
    The first ENCODER is the baseline of the comparison. A failed measurement is reported in the table, and
    the exit status is 1.

    \b
    Example:
        nearsay evaluate compare all-MiniLM-L6-v2 ./my-encoder --suite sets/ --plot compared.png
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.picture import write_picture
    from nearsay.training.evaluation.judged.comparison import (
        ComparisonOptions,
        compare_encoders,
        encoder_size,
    )
    from nearsay.training.evaluation.judged.comparison_plot import comparison_figure
    from nearsay.training.evaluation.judged.comparison_table import comparison_markdown
    from nearsay.training.evaluation.judged.suite import find_suite

    if markdown and as_json:
        raise click.UsageError("--markdown and --json cannot be combined: use one of them")
    options = ComparisonOptions(limit=sample, seed=seed, draws=draws, speed_rounds=rounds)
    found = find_suite(suite, split=split, only=only)
    print_notes(found.notes)
    loaded = [run.loaded(name) for name in encoders]
    with ProgressBar("measuring", unit="texts") as bar:
        comparison = compare_encoders(
            loaded,
            found.sets,
            sizes=[encoder_size(encoder.source) for encoder in loaded],
            options=options,
            watch=lambda encoder, judged, done, total: bar.at(done, total, doing=f"{encoder} on {judged}"),
        )
    print_notes(comparison.notes)
    if markdown:
        click.echo(comparison_markdown(comparison), nl=False)
    else:
        print_reports([*comparison.cells, *comparison.encoders], as_json=as_json)
    if plot:
        write_picture(plot, lambda: comparison_figure(comparison))
    if comparison.failed:
        print_notes([f"{counted(comparison.failed, 'measurement')} failed; the table has the errors"])
        sys.exit(1)


@click.group(
    cls=CommandGroup,
    commands=[
        sts,
        triplets,
        pairs,
        nli,
        retrieval,
        reranking,
        clustering,
        classification,
        compare,
        compression,
        unlabelled,
        tokenizer,
        layers,
        mlm,
        classifier,
        tagger,
        reader,
    ],
)
def evaluate() -> None:
    """Measure encoders, tokenizers and heads.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv
    """
