"""`nearsay doctor`: the installation, the machine, and the integrity of every collection."""

import sys

import click
from click.core import ParameterSource

from nearsay.app.cli.command import GROUP, command, option
from nearsay.app.cli.options import JSON, Encoding
from nearsay.app.cli.printing import print_json
from nearsay.data.document import visible


@command()
def doctor(
    prove: bool = option(
        "Also verify the hash of every text, the full-text index and the database "
        "indexes, and encode a sample again."
    ),
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Check the installation, the machine and the integrity of every collection.

    Shows versions, devices and the precision in use, then checks the catalogue and, for each collection,
    rows, full-text index, vectors and index: hashes, counts and ids, and which runtime each encoder
    uses for queries. Exits with status 1 if anything is wrong.

    \b
    Example:
        nearsay doctor --prove
    """
    from pathlib import Path

    from nearsay.data.report import Finding
    from nearsay.indexer.doctor import examine
    from nearsay.indexer.vectors.errors import CatalogueError
    from nearsay.training.environment import environment

    findings = [*environment(place.device, place.precision)]
    named = click.get_current_context().get_parameter_source("library") is not ParameterSource.DEFAULT
    if not (Path(place.library) / "library.json").is_file():
        text = f"there is none in {place.library}"
        there = f"{text}. Choose its folder with --library DIR" if named else f"{text}, so none was checked"
        findings.append(Finding("library", there, sound=not named))
    else:
        try:
            with place.open() as opened:
                findings += examine(opened, prove=prove, precision=place.precision)
        except CatalogueError as error:
            findings.append(Finding("catalogue", str(error), sound=False))
    for finding in findings:
        if as_json:
            print_json(finding)
        else:
            for line in finding.lines():
                click.secho(visible(line), fg=None if finding.sound else "red", bold=not finding.sound)
    if not all(finding.sound for finding in findings):
        sys.exit(1)
