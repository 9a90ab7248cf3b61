"""`nearsay train sentence`: a sentence encoder from pairs, triplets, labels, scores or plain texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.app.cli.sentence_options import recipe_of, sentence_options
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.result import Change, SentenceResult
    from nearsay.training.sentence.fine_tuning.run_recipe import SeedResult

__all__ = ["print_changes", "sentence"]


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The folder that becomes the encoder."
)
@sentence_options
@json_option
@device_options
def sentence(files: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a sentence encoder on pairs, triplets, labels, scores or texts.

    FILE: tsv, csv, jsonl, parquet (or .gz) with two texts and a score, an NLI label or 0 and 1; two texts
    that belong together; anchor, positive and negatives; or a text a line. What it is and which loss it gets
    is found out and said. Stopped or killed, the same command goes on. --out loads in
    sentence-transformers. Several GPUs: torchrun --nproc-per-node 4 -m nearsay.app.cli train …; they divide
    each batch, whose rows all stay each other's negatives.

    \b
    Example:
        nearsay train sentence stsb/train.tsv --dev sts:stsb/dev.tsv --epochs 4 --out my-encoder
    """
    from nearsay.app.cli.stopping import stoppable
    from nearsay.app.cli.training_line import TrainingLine
    from nearsay.training.run.watch import Watch
    from nearsay.training.sentence.fine_tuning.run_recipe import run_recipe

    recipe = recipe_of(files, options)
    with TrainingLine() as line, stoppable() as stop:
        watch = Watch(listener=line, report=lambda note: print_notes([note]), stop=stop)
        results = run_recipe(recipe, out, device=options["device"], watch=watch)
    last = results[-1].result
    if last is not None and not last.finished:
        raise KeyboardInterrupt
    if last is not None and not last.leads:
        return  # another of torchrun's processes tells what came of it
    _print(results, as_json=as_json)


def _print(results: list["SeedResult"], *, as_json: bool) -> None:
    from nearsay.training.sentence.fine_tuning.run_recipe import spread_of

    for one in results:
        result = one.result
        if result is None:
            continue
        figures = {
            "steps": result.steps,
            "seconds": round(result.seconds, 1),
            "rows_per_second": round(result.pairs_per_second, 1),
        }
        if as_json:
            changes = [change.to_json() for change in result.changes]
            told = {"folder": str(one.folder), "seed": one.seed, **figures, "dev": result.dev}
            print_json(
                {
                    **told,
                    "base_dev": result.base_dev,
                    "stopped_early": result.stopped_early,
                    "evaluations": changes,
                }
            )
            continue
        rows: list[list[object]] = [[name.replace("_", " "), value] for name, value in figures.items()]
        for name, value in result.dev.items():
            rows.append([f"dev {name}".replace("_", " "), f"{value:.4f}"])
            rows.append(["of the base", f"{result.base_dev.get(name, float('nan')):.4f}"])
        print_table(["", str(one.folder)], rows)
        print_notes(_verdicts(result))
        print_changes(result.changes)
    if len(results) > 1:
        spreads = spread_of(results)
        if as_json:
            print_json({"seeds": len(results), "evaluations": [spread.to_json() for spread in spreads]})
        else:
            click.echo()
            shown = [[spread.name, f"{spread.mean:.4g}", f"{spread.deviation:.2g}"] for spread in spreads]
            print_table([f"{len(results)} seeds", "mean", "deviation"], shown)


def _verdicts(result: "SentenceResult") -> list[str]:
    notes = []
    if result.stopped_early:
        notes.append(
            f"ended early, after {counted(result.steps, 'step')}: the dev set did not get better any more"
        )
    if result.dev and result.dev == result.base_dev:
        notes.append("no step was better on the dev set than the base, whose weights were kept")
    if not result.dev and not result.changes:
        notes.append("nothing was measured; --dev and --evaluate say what the training was worth")
    return notes


def print_changes(changes: Sequence["Change"]) -> None:
    """Print a table of evaluations before and after a training."""
    if not changes:
        return
    click.echo()
    print_table(
        ["set", "figure", "items", "before", "after", "gained", "95 % interval", ""],
        [
            [
                change.after.name,
                change.after.main,
                change.after.items,
                f"{change.before.figure:.4g}",
                f"{change.after.figure:.4g}",
                f"{change.gained:+.3g}",
                f"{change.difference.low:+.3g} to {change.difference.high:+.3g}",
                change.verdict,
            ]
            for change in changes
        ],
    )
