"""`nearsay encode`: texts to vectors, without a library."""

from pathlib import Path

import click

from nearsay.app.cli.options import device_options
from nearsay.app.cli.printing import print_notes

__all__ = ["encode"]


@click.command()
@click.argument("file")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The .npy file to write.")
@click.option(
    "--encoder", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder."
)
@click.option("--text", metavar="FIELD", help="The field with the text; guessed and reported if left out.")
@device_options
def encode(file: str, out: Path, encoder: str, text: str | None, device: str | None, precision: str) -> None:
    """Encode the texts of FILE into a NumPy array.

    A float32 row a text, in the file's order. A row that cannot be used stops it and nothing is written.

    \b
    Example:
        nearsay encode sentences.txt --out vectors.npy
    """
    from nearsay.indexer.vector_file import encode_file

    report = encode_file(file, out, encoder, text=text, device=device, precision=precision)
    print_notes(report.notes)
    click.echo(f"{report.texts:,} vectors of {report.dimension} numbers in {out}", err=True)
