"""`nearsay demo`: indexing, searching and clustering the sample corpus, in a minute."""

import sys
from pathlib import Path

import click

from nearsay.app.cli.command import GROUP, command
from nearsay.app.cli.options import Encoding
from nearsay.app.cli.printing import print_hits, print_rows
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.quantity import counted

_COLLECTION = "samples"
_SHOWN = 8  # clusters
_SEARCHES = (
    ("walks are a tug of war, my arm is killing me", None),
    ("program stops misbehaving the moment I try to inspect it", "subject = 'software debugging'"),
    ("ceiling gadget keeps beeping though nothing is burning", "date >= 2018-01-01 and kind != 'log'"),
)


@command()
def demo(place: Encoding = GROUP) -> None:
    """Index the sample corpus, search it three times and cluster it.

    A second run embeds nothing. At the end, commands to try next are shown.

    \b
    Example:
        nearsay demo --library demo-library
    """
    from nearsay.data.samples import folder

    click.echo("Indexing the sample corpus with the bundled encoder, all-MiniLM-L6-v2 …")
    with place.open(create=True) as library, ProgressBar("embedding") as bar:
        samples = library.collection(_COLLECTION)
        report = samples.add(folder() / "corpus.jsonl", progress=bar)
        read = counted(report.read, "passage")
        click.echo(f"{read} in the collection '{_COLLECTION}', {report.embedded} embedded now")
        for query, where in _SEARCHES:
            click.echo(
                f"\n{click.style(f'“{query}”', fg='cyan', bold=True)}" + (f"  where {where}" if where else "")
            )
            print_hits(samples.search(query, k=3, where=where), as_json=False)
        anew = report.embedded or not samples.explore.has_clusters()
        found = samples.explore.cluster(progress=bar) if anew else samples.explore.clusters()
    largest = [each for each in found.clusters if each.level == 0]
    head = click.style("Topics", fg="cyan", bold=True)
    click.echo(f"\n{head}: {counted(len(largest), 'cluster')}, the largest of them")
    print_rows(
        largest[:_SHOWN],
        {
            "cluster": "number",
            "passages": "size",
            "about": "name",
            "for example": lambda each: next((one.title or one.text[:60] for one in each.central), ""),
        },
        as_json=False,
    )
    _print_next_steps(str(place.library))


def _print_next_steps(library: str) -> None:
    click.echo(
        f"""
Try next (if the shell does not find nearsay: export PATH="{Path(sys.executable).parent}:$PATH";
with export NEARSAY_LIBRARY={library} you need not repeat --library):
  nearsay search {_COLLECTION} "why is the sky dark at night" -n 5
  nearsay search {_COLLECTION} "leash" --where "subject = 'pets' and date >= 2020-01-01"
  nearsay explore clusters {_COLLECTION}                 all of them; then --where "cluster = 1" in a search
  nearsay documents add notes my-notes/                a folder of txt, md, html, pdf, docx, csv, jsonl
  nearsay search notes "what did we decide about holidays"
  nearsay similar {_COLLECTION} --id cooking-01
  nearsay doctor --prove                           check every index thoroughly"""
    )
