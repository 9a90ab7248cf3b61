"""`nearsay train adapt`: an encoder that learns a collection without labels."""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from nearsay.app.cli.options import Place, inexact_resume_option, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.train_sentence import print_changes
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.sentence.adaptation.adapt import Adaptation, AdaptationResult

__all__ = ["adapt"]


class _Training(TypedDict):
    """How it is trained."""

    minutes: float | None
    steps: int | None
    learning_rate: float | None
    seed: int
    inexact_resume: bool


class _Options(_Training, Place):
    """All options but those for what is written."""


@click.command()
@click.argument("collection")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new encoder's folder.")
@click.option("--evaluate", multiple=True, metavar="SET", help="Measured before and after; may be repeated.")
@click.option("--minutes", type=float, help="Train for so many minutes; 12 if nothing is said.")
@click.option("--steps", type=int, help="Train for so many steps instead.")
@click.option("--learning-rate", type=float, help="Its highest value; 3e-5 if left out.")
@click.option("--seed", default=0, show_default=True, help="Of everything random.")
@inexact_resume_option
@json_option
@library_options
def adapt(
    collection: str, out: Path, evaluate: tuple[str, ...], *, as_json: bool, **options: Unpack[_Options]
) -> None:
    """Adapt the encoder of COLLECTION to its documents, from the documents alone.

    Titles, sentences and salient words are asked as if somebody had searched for them, and the encoder learns
    to rank passages for them as hybrid search does, held to the vectors that it gave before. Ends with a
    table of before and after: on pseudo-queries that were held out, on the collection's judgements if it has
    any, on general texts, and on each --evaluate. An encoder is written only if it is better. The collection
    stays as it is: index rebuild takes the new encoder. Stopped or killed, the same command resumes.

    \b
    Example:
        nearsay train adapt papers --out my-encoder
        nearsay index rebuild papers --encoder my-encoder
    """
    from nearsay.app.cli.stopping import stoppable
    from nearsay.app.cli.training_line import TrainingLine
    from nearsay.indexer.adaptation import adapt_to_collection
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.watch import Watch

    chosen, tests = _adaptation(options), [read_judged_set(spec) for spec in evaluate]
    with open_library(options) as library, TrainingLine() as line, stoppable() as stop:
        watch = Watch(listener=line, report=lambda note: print_notes([note]), stop=stop)
        result = adapt_to_collection(
            library.collection(collection),
            out,
            options=chosen,
            tests=tests,
            device=options["device"],
            watch=watch,
        )
    if not result.finished:
        raise KeyboardInterrupt
    _print(result, out, collection, as_json=as_json)


def _adaptation(options: _Options) -> "Adaptation":
    from nearsay.training.sentence.adaptation.adapt import Adaptation
    from nearsay.training.sentence.precision import Precision

    usual = Adaptation()
    minutes = usual.minutes if options["steps"] is None else None
    return Adaptation(
        minutes=minutes if options["minutes"] is None else options["minutes"],
        steps=options["steps"],
        learning_rate=options["learning_rate"] or usual.learning_rate,
        precision=Precision(options["precision"]),
        seed=options["seed"],
        exact_resume=not options["inexact_resume"],
    )


def _print(result: "AdaptationResult", out: Path, collection: str, *, as_json: bool) -> None:
    if as_json:
        told = {"folder": str(out), "adapted": result.adapted, "share": result.share, "steps": result.steps}
        evaluations = [change.to_json() for change in result.changes]
        print_json({**told, "seconds": round(result.seconds, 1), "evaluations": evaluations})
        return
    print_changes(result.changes)
    trained = f"{counted(result.steps, 'step')} in {result.seconds:,.0f} s"
    if result.adapted:
        click.echo(
            f"{trained}; the encoder is in {out}. Search with it: "
            f"nearsay index rebuild {collection} --encoder {out}",
            err=True,
        )
    else:
        click.echo(
            f"{trained}; it is not better than the original, so no encoder was written. Go on with the "
            "original, or judge some results: nearsay train sentence learns from judgements",
            err=True,
        )
