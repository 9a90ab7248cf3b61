"""`nearsay evaluate unlabelled` and `tokenizer`: what texts alone say of an encoder."""

from dataclasses import replace
from typing import TYPE_CHECKING

from nearsay.app.cli.command import GROUP, argument, command, option
from nearsay.app.cli.options import JSON, SAMPLE, SEED, SEVERAL_ENCODERS, TITLE, Run, TextFields
from nearsay.app.cli.printing import print_notes, print_reports

if TYPE_CHECKING:
    from nearsay.training.evaluation.proxies.panel import EncoderPanel, Proxy, ProxyFigure, ProxyScore


@command()
def unlabelled(
    sources: tuple[str, ...] = argument("FILE…", required=True),
    encoders: tuple[str, ...] = SEVERAL_ENCODERS,
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
    for name in encoders:
        encoder = run.loaded(name)
        with ProgressBar(f"encoding with {encoder.name}", unit="texts") as bar:
            panel = encoder_panel(encoder, texts, progress=bar.at)
        scores += [_score(panel, proxy, found, seed) for proxy, found in panel.figures.items()]
    print_reports(scores, as_json=as_json)


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


@command()
def tokenizer(
    sources: tuple[str, ...] = argument("TEXT…", required=True),
    encoders: tuple[str, ...] = SEVERAL_ENCODERS,
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
