"""`nearsay evaluate unlabelled` and `tokenizer`: what texts alone say of an encoder."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.evaluate_judged import load_encoder
from nearsay.app.cli.options import (
    ENCODER,
    TextFields,
    device_options,
    json_option,
    read_options,
    sample_option,
    seed_option,
    text_options,
)
from nearsay.app.cli.printing import print_notes, print_reports

if TYPE_CHECKING:
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.proxies.panel import EncoderPanel, Proxy, ProxyFigure, ProxyScore

__all__ = ["tokenizer", "unlabelled"]


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--encoder",
    "encoders",
    type=ENCODER,
    multiple=True,
    default=["all-MiniLM-L6-v2"],
    show_default=True,
    help="Name or folder of the encoder. Can be repeated.",
)
@click.option(
    "--title",
    metavar="FIELD",
    help="Field that holds the title, which is embedded together with the text.",
    show_default="guessed and reported",
)
@partial(sample_option, default=500, least=2)
@seed_option
@text_options
@json_option
@device_options
def unlabelled(
    *,
    sources: tuple[str, ...],
    encoders: tuple[str, ...],
    title: str | None,
    sample: int,
    seed: int,
    as_json: bool,
    device: str | None,
    precision: str,
    **fields: Unpack[TextFields],
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

    options = replace(read_options(fields), title=title)
    corpus = read_unjudged_corpus(sources, options, most=sample, seed=seed)
    print_notes(corpus.notes)
    texts = UnjudgedTexts(corpus, seed=seed)
    scores: list[ProxyScore] = []
    for name in encoders:
        encoder = load_encoder(name, device, precision)
        with ProgressBar(f"encoding with {encoder.name}", unit="texts") as bar:
            panel = encoder_panel(encoder, texts, progress=partial(_look, bar))
        scores += [_score(panel, proxy, found, seed) for proxy, found in panel.figures.items()]
    print_reports(scores, as_json=as_json)


def _look(bar: "ProgressBar", done: int, total: int) -> None:
    from nearsay.indexer.vectors.progress import Progress

    bar(Progress(done, total))


def _score(panel: "EncoderPanel", proxy: "Proxy", found: "ProxyFigure | None", seed: int) -> "ProxyScore":
    from nearsay.training.evaluation.judged.bootstrap import interval_of_mean
    from nearsay.training.evaluation.proxies.panel import ProxyScore

    interval = None if found is None else interval_of_mean(found.each, seed=seed)
    return ProxyScore(
        encoder=panel.encoder,
        proxy=proxy,
        measure=proxy.measure,
        figure=None if found is None else found.figure,
        interval=None if interval is None else (interval.low, interval.high),
        chance=None if found is None else found.chance,
        items=0 if found is None else len(found.each),
        does_not_show=proxy.does_not_show,
        truncated=panel.truncated,
        seed=seed,
    )


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TEXT…")
@click.option(
    "--encoder",
    "encoders",
    type=ENCODER,
    multiple=True,
    default=["all-MiniLM-L6-v2"],
    show_default=True,
    help="Name or folder of the encoder. Can be repeated.",
)
@click.option(
    "--length",
    "lengths",
    type=int,
    multiple=True,
    default=(64, 128, 256, 512),
    show_default=True,
    metavar="N",
    help="Maximum number of tokens in a sequence. Can be repeated.",
)
@click.option(
    "--new-size",
    type=int,
    metavar="N",
    help="Number of tokens in the new vocabulary.",
    show_default="as many as the encoder's",
)
@click.option("--no-new", is_flag=True, help="Do not train a new vocabulary for comparison.")
@partial(sample_option, default=50_000)
@seed_option
@text_options
@json_option
def tokenizer(
    *,
    sources: tuple[str, ...],
    encoders: tuple[str, ...],
    lengths: tuple[int, ...],
    new_size: int | None,
    no_new: bool,
    sample: int,
    seed: int,
    as_json: bool,
    **fields: Unpack[TextFields],
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
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.evaluation.text_sample import TextSample
    from nearsay.training.evaluation.tokenizer_fit import encoder_fit

    with ProgressBar("reading") as bar:
        texts = Texts(sources, read_options(fields), listener=lambda done, total: bar(Progress(done, total)))
        drawn = TextSample(texts, sample, seed=seed)
    print_notes(texts.notes)
    with drawn, ProgressBar("tokenizing") as bar:
        fits = []
        for index, encoder in enumerate(encoders):
            seen = partial(_measured, bar, index * len(drawn), len(encoders) * len(drawn))
            fits.append(
                encoder_fit(encoder, drawn, lengths=lengths, new_size=new_size, new=not no_new, listener=seen)
            )
    print_notes([drawn.note] if drawn.note else [])
    print_reports([replace(fit, texts_in_all=drawn.seen, seed=seed) for fit in fits], as_json=as_json)


def _measured(bar: "ProgressBar", before: int, total: int, done: int) -> None:
    from nearsay.indexer.vectors.progress import Progress

    bar(Progress(before + done, total))
