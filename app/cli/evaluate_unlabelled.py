"""`nearsay evaluate unlabelled`: what a corpus says about encoders without a judgement."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.evaluation_options import load_encoder
from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.app.cli.text_options import TextFields, read_options, text_options
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.training.evaluation.proxies.panel import EncoderPanel
    from nearsay.training.evaluation.proxies.proxy import ProxyFigure

__all__ = ["unlabelled"]


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--encoder",
    "encoders",
    multiple=True,
    default=["all-MiniLM-L6-v2"],
    show_default=True,
    help="Name or folder of an encoder; may be repeated to compare.",
)
@click.option("--title", metavar="FIELD", help="The field with the title; guessed and reported if left out.")
@click.option(
    "--documents",
    default=500,
    show_default=True,
    type=click.IntRange(2),
    help="Most documents, drawn by chance.",
)
@click.option("--seed", default=0, show_default=True, help="Of what is drawn by chance.")
@text_options
@json_option
@device_options
def unlabelled(
    *,
    sources: tuple[str, ...],
    encoders: tuple[str, ...],
    title: str | None,
    documents: int,
    seed: int,
    as_json: bool,
    device: str | None,
    precision: str,
    **fields: Unpack[TextFields],
) -> None:
    """Measure encoders on a corpus that nobody judged: proxies, none of which is search quality.

    FILE: files, folders, globs in quotes, or - for standard input, as in `documents add`. Each line says
    what it stands for and what it does not show; to know whether a search is good, judge some queries.

    \b
    Example:
        nearsay evaluate unlabelled papers.jsonl --text abstract --encoder all-MiniLM-L6-v2
    """
    from dataclasses import replace

    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.training.evaluation.proxies.corpus import read_unjudged_corpus
    from nearsay.training.evaluation.proxies.panel import UnjudgedTexts, encoder_panel

    options = replace(read_options(fields), title=title)
    corpus = read_unjudged_corpus(sources, options, most=documents, seed=seed)
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
    from nearsay.training.evaluation.proxies.proxy import Proxy

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
