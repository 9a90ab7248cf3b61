"""`nearsay train adapt`: an encoder that learns a collection without labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.train_sentence import print_changes

if TYPE_CHECKING:
    from nearsay.training.sentence.adaptation.adapt import AdaptationResult

__all__ = ["adapt"]


@click.command()
@click.argument("collection")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new encoder's folder.")
@click.option("--evaluate", multiple=True, metavar="SET", help="Measured before and after; may be repeated.")
@click.option(
    "--power",
    type=float,
    default=0.15,
    show_default=True,
    help="How far directions in which all passages differ are weakened: 0 not at all, 1 entirely.",
)
@click.option("--seed", default=0, show_default=True, help="Of the pseudo-queries that are drawn.")
@json_option
@library_options
def adapt(
    collection: str,
    out: Path,
    evaluate: tuple[str, ...],
    *,
    power: float,
    seed: int,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Fit the encoder of COLLECTION to its documents, from the documents alone, within a minute or so.

    A linear layer behind the encoder weakens the directions in which all passages differ. It is measured on
    titles, sentences and salient words, asked as if somebody had searched for them, on the collection's
    judgements if it has any, on general texts, and on each --evaluate. An encoder is written only if it is
    better. The collection stays as it is: index rebuild takes the new encoder.

    \b
    Example:
        nearsay train adapt papers --out my-encoder
        nearsay index rebuild papers --encoder my-encoder
    """
    from nearsay.indexer.adaptation import adapt_to_collection
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.watch import Watch
    from nearsay.training.sentence.adaptation.adapt import Adaptation

    options = Adaptation(power=power, precision=Precision(place["precision"]), seed=seed)
    tests = [read_judged_set(spec) for spec in evaluate]
    with open_library(place) as library:
        result = adapt_to_collection(
            library.collection(collection),
            out,
            options=options,
            tests=tests,
            device=place["device"],
            watch=Watch(report=lambda note: print_notes([note])),
        )
    _print(result, out, collection, as_json=as_json)


def _print(result: "AdaptationResult", out: Path, collection: str, *, as_json: bool) -> None:
    if as_json:
        told = {"folder": str(out), "adapted": result.adapted}
        evaluations = [change.to_json() for change in result.changes]
        print_json({**told, "seconds": round(result.seconds, 1), "evaluations": evaluations})
        return
    print_changes(result.changes)
    if result.adapted:
        click.echo(
            f"the encoder is in {out}. Search with it: nearsay index rebuild {collection} --encoder {out}",
            err=True,
        )
    else:
        click.echo(
            "it is not better than the original, so no encoder was written. Go on with the original, or "
            "judge some results: nearsay train sentence learns from judgements",
            err=True,
        )
