"""`nearsay demo`: the main job on the sample corpus, in a minute."""

import sys
from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import Place, library_options, open_library
from nearsay.app.cli.printing import print_hits
from nearsay.app.cli.progress_bar import ProgressBar

__all__ = ["demo"]

_COLLECTION = "samples"
_SEARCHES = (
    ("walks are a tug of war, my arm is killing me", None),
    ("program stops misbehaving the moment I try to inspect it", "subject = 'software debugging'"),
    ("ceiling gadget keeps beeping though nothing is burning", "date >= 2018-01-01 and kind != 'log'"),
)


@click.command()
@library_options
def demo(**place: Unpack[Place]) -> None:
    """Index the sample corpus and search it three times.

    Run again it embeds nothing. Ends with how to go on.

    \b
    Example:
        nearsay demo --library demo-library
    """
    from nearsay.data.samples import folder

    click.echo("Indexing the sample corpus with the bundled encoder, all-MiniLM-L6-v2 …")
    with open_library(place, create=True) as library, ProgressBar("embedding") as bar:
        samples = library.collection(_COLLECTION)
        report = samples.add(folder() / "corpus.jsonl", progress=bar)
        click.echo(
            f"{report.read} passages in the collection '{_COLLECTION}', {report.embedded} embedded now"
        )
        for query, where in _SEARCHES:
            click.echo(
                f"\n{click.style(f'“{query}”', fg='cyan', bold=True)}" + (f"  where {where}" if where else "")
            )
            print_hits(samples.search(query, k=3, where=where), as_json=False)
    _say_how_to_go_on(str(place["library"]))


def _say_how_to_go_on(library: str) -> None:
    click.echo(
        f"""
Now yours (where the shell does not find nearsay: export PATH="{Path(sys.executable).parent}:$PATH";
export NEARSAY_LIBRARY={library} saves naming the library each time):
  nearsay search {_COLLECTION} "why is the sky dark at night" -k 5
  nearsay search {_COLLECTION} "leash" --where "subject = 'pets' and date >= 2020-01-01"
  nearsay index add notes my-notes/                a folder of txt, md, html, pdf, csv, jsonl
  nearsay search notes "what did we decide about holidays"
  nearsay similar {_COLLECTION} --id cooking-01
  nearsay doctor --prove                           is every index exactly what it should be"""
    )
