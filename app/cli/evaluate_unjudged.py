"""`nearsay evaluate unlabelled` and `tokenizer`: what texts alone say of an encoder."""

from collections.abc import Sequence
from dataclasses import asdict
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
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.document import visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.proxies.panel import EncoderPanel, ProxyFigure
    from nearsay.training.evaluation.tokenizer_fit import TokenizerFit

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
    from dataclasses import replace

    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.proxies.corpus import read_unjudged_corpus
    from nearsay.training.evaluation.proxies.panel import UnjudgedTexts, encoder_panel

    options = replace(read_options(fields), title=title)
    corpus = read_unjudged_corpus(sources, options, most=sample, seed=seed)
    print_notes(corpus.notes)
    texts = UnjudgedTexts(corpus, seed=seed)
    panels = []
    for name in encoders:
        encoder = load_encoder(name, device, precision)
        with ProgressBar(f"encoding with {encoder.name}", unit="texts") as bar:
            panels.append(encoder_panel(encoder, texts, progress=partial(_look, bar)))
    (_print_rows if as_json else _print_panels)(panels, seed)


def _look(bar: "ProgressBar", done: int, total: int) -> None:
    from nearsay.indexer.vectors.progress import Progress

    bar(Progress(done, total))


def _print_rows(panels: Sequence["EncoderPanel"], seed: int) -> None:
    from nearsay.training.evaluation.judged.bootstrap import interval_of_mean

    for panel in panels:
        for proxy, found in panel.figures.items():
            interval = None if found is None else interval_of_mean(found.each, seed=seed)
            print_json(
                {
                    "encoder": panel.encoder,
                    "proxy": str(proxy),
                    "measure": proxy.measure,
                    "figure": None if found is None else found.figure,
                    "interval": None if interval is None else [interval.low, interval.high],
                    "chance": None if found is None else found.chance,
                    "items": 0 if found is None else len(found.each),
                    "does_not_show": proxy.does_not_show,
                    "truncated": panel.truncated,
                    "seed": seed,
                }
            )


def _print_panels(panels: Sequence["EncoderPanel"], seed: int) -> None:
    """A row a proxy, a column an encoder, and below what each proxy does not show."""
    from nearsay.training.evaluation.proxies.panel import Proxy

    rows = []
    for proxy in Proxy:
        found = [panel.figures[proxy] for panel in panels]
        some = next((figure for figure in found if figure is not None), None)
        rows.append(
            [
                f"proxy: {proxy}",
                "-" if some is None else f"{len(some.each):,}",
                "-" if some is None else f"{some.chance:.4f}",
                *(_shown(figure, seed) for figure in found),
            ]
        )
    print_table(["", "items", "by chance", *(panel.encoder for panel in panels)], rows)
    click.echo()
    for proxy in Proxy:
        click.echo(f"{proxy}: {proxy.measure}. {proxy.does_not_show}")
    for panel in panels:
        if panel.truncated:
            print_notes([f"{panel.encoder}: {counted(panel.truncated, 'text')} cut at the length limit"])


def _shown(found: "ProxyFigure | None", seed: int) -> str:
    from nearsay.training.evaluation.judged.bootstrap import interval_of_mean

    if found is None:
        return "nothing to measure on"
    interval = interval_of_mean(found.each, seed=seed)
    return f"{found.figure:.4f} ({interval.low:.4f} to {interval.high:.4f})"


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
    if as_json:
        for fit in fits:
            print_json({**asdict(fit), "texts_in_all": drawn.seen, "seed": seed})
    else:
        _print_fits(fits)


def _measured(bar: "ProgressBar", before: int, total: int, done: int) -> None:
    from nearsay.indexer.vectors.progress import Progress

    bar(Progress(before + done, total))


def _print_fits(fits: Sequence["TokenizerFit"]) -> None:
    figures = [_figures(fit) for fit in fits]
    print_table(
        ["", *(fit.encoder for fit in fits)],
        [[name, *(each[name] for each in figures)] for name in figures[0]],
    )
    for fit in fits:
        if fit.broken:
            click.echo(f"\n{visible(fit.encoder)}: the most broken words")
            print_table(
                ["word", "times", "pieces"],
                [[word.word, word.count, " ".join(word.pieces)] for word in fit.broken],
            )
        if fit.unknown:
            click.echo(f"\n{visible(fit.encoder)}: what becomes [UNK]")
            print_table(["text", "times"], [[unknown.text, unknown.count] for unknown in fit.unknown])
        click.echo("\n" + visible(_saving(fit)))


def _figures(fit: "TokenizerFit") -> dict[str, object]:
    return {
        "pieces": fit.vocabulary_size,
        "texts": fit.texts,
        "words": fit.words,
        "tokens": fit.tokens,
        "tokens a word": f"{fit.tokens_per_word:.3f}",
        "words split, %": f"{100 * fit.split_words:.2f}",
        "[UNK] among tokens, %": f"{100 * fit.unknown_tokens:.3f}",
        "words with [UNK], %": f"{100 * fit.unknown_words:.3f}",
        **{
            f"texts over {length.length} tokens, %": f"{100 * length.truncated_texts:.1f}"
            for length in fit.lengths
        },
    }


def _saving(fit: "TokenizerFit") -> str:
    new = fit.new_vocabulary
    if new is None:
        return f"{fit.encoder}: not compared with a new vocabulary"
    casing, compared = "cased" if new.cased else "uncased", "fewer" if new.saved >= 0 else "more"
    return (
        f"{fit.encoder}: a new {casing} vocabulary of {new.size:,} pieces, trained on {new.trained_texts:,} "
        f"of the texts, gives {100 * abs(new.saved):.1f} % {compared} tokens on the other "
        f"{new.held_out_texts:,} ({new.new_tokens:,} instead of {new.tokens:,}; {new.new_unknown_tokens:,} "
        f"instead of {new.unknown_tokens:,} of them [UNK])"
    )
