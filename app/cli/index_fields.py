"""`nearsay index fields`: which metadata fields filters and counts find quickly."""

from typing import Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

__all__ = ["fields"]

_DOCUMENTS_A_SECOND = 100_000  # whose values of one field are entered; for the word on how long it takes


@click.command()
@click.argument("collection")
@click.option("--declare", multiple=True, metavar="FIELD", help="A field to declare; may be given again.")
@click.option("--forget", multiple=True, metavar="FIELD", help="A field to take back; may be given again.")
@json_option
@library_options
def fields(
    collection: str, declare: tuple[str, ...], forget: tuple[str, ...], as_json: bool, **place: Unpack[Place]
) -> None:
    """List, declare or take back the fields of COLLECTION that filters find quickly.

    A declared field has its values in an index of the catalogue: filters and counts over it stay quick in
    collections of millions. Its room is about 60 bytes a document. Fields are entered one after the
    other, each as a whole or not at all; other writers wait for one, ten seconds or so in a million.

    \b
    Example:
        nearsay index fields papers --declare year --declare author.name
    """
    with open_library(place) as library:
        target = library.collection(collection)
        if forget:
            gone = target.forget_fields(forget)
            print_notes([f"taken back: {', '.join(gone)}"])
        if declare:
            seconds = len(declare) * target.overview().documents / _DOCUMENTS_A_SECOND
            if seconds > 2:
                print_notes([f"entering values, about {seconds:.0f} seconds"])
            report = target.declare_fields(declare)
            done = f"{counted(report.values, 'value')} of {counted(report.documents, 'document')} entered"
            print_notes([f"{done} in {report.seconds:.1f} s", *report.notes])
        names = target.declared_fields()
    if as_json:
        print_json({"collection": collection, "declared": names})
    else:
        print_table(["declared field"], [[name] for name in names])
