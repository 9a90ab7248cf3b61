"""`nearsay encoders`: the encoders of a library, texts to vectors without one, and what is inside."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from nearsay.app.cli.command import FILE, GROUP, CommandGroup, argument, option
from nearsay.app.cli.encoders_inside import inside
from nearsay.app.cli.options import (
    ENCODER,
    JSON,
    ONE_ENCODER,
    POOLING,
    TEXT,
    AtHand,
    Place,
    Run,
)
from nearsay.app.cli.printing import (
    LIBRARY_GIVEN,
    print_done,
    print_json,
    print_notes,
    print_results,
    print_rows,
)
from nearsay.data.document import visible
from nearsay.data.quantity import counted, size_words
from nearsay.data.report import Done
from nearsay.data.report import as_json as to_plain

if TYPE_CHECKING:
    from nearsay.indexer.encoders import Encoders


@click.group(cls=CommandGroup, commands=[inside])
def encoders() -> None:
    """List encoders, encode texts, and inspect encoders.

    \b
    Example:
        nearsay encoders list
        nearsay encoders encode sentences.txt --out vectors.npy
    """


@encoders.command("list")
def list_(as_json: bool = JSON, place: Place = GROUP) -> None:
    """List the encoders and BERTs that a library knows by name.

    These are the bundled one, those trained here, and those that any collection was embedded with. Use a name
    wherever a command takes an encoder: --encoder, --base, --guide, --bert.

    \b
    Example:
        nearsay encoders list
        nearsay encoders list --json
    """
    with _known(place) as known:
        found = known.list(berts=True)
    print_rows(
        found,
        {
            "name": "name",
            "": lambda each: f"{'BERT, ' * each.bert}{each.origin}" if each.there else "missing",
            "live in": lambda each: ", ".join(each.live_in),
            "job": "job",
            "folder": lambda each: None if each.source == each.name else each.source,
        },
        as_json=as_json,
    )


@encoders.command()
def show(
    name: str = argument(shell_complete=ENCODER.shell_complete), as_json: bool = JSON, place: Place = GROUP
) -> None:
    """Show the lineage of an encoder, the gain of its training, and the collections that use it.

    NAME is a name from `encoders list` or a folder. Only its folder is read; nothing is loaded or downloaded.

    \b
    Example:
        nearsay encoders show all-MiniLM-L6-v2
        nearsay encoders show my-sentences --json
    """
    with _known(place) as known:
        facts = known.facts(name)
        uses = [use for each in known.list() if each.source == facts.source for use in each.uses]
    if as_json:
        print_json(facts.to_json() | {"uses": to_plain(uses)})
        return
    rows: list[tuple[str, object]] = [
        ("name", facts.name),
        ("folder", facts.source if facts.source != facts.name else ""),
        ("dimensions", facts.dimension),
        ("longest text", facts.max_tokens and counted(facts.max_tokens, "token")),
        ("weights", size_words(facts.bytes)),
        ("fingerprint", facts.fingerprint[:12]),
        ("trained from", facts.base),
        *(("trained on", each) for each in facts.learned),
        *(("lineage", each) for each in facts.lineage),
        *(("used by", f"{use.collection}, generation {use.generation} ({use.state})") for use in uses),
    ]
    for what, value in rows:
        if value:
            click.echo(visible(f"{what:13} {value}"))
    if facts.changes:
        from nearsay.app.jobs.results import JobResults, changes_table

        click.echo()
        print_results(JobResults(changes=changes_table(facts.changes)))


@contextlib.contextmanager
def _known(place: Place) -> Iterator["Encoders"]:
    """Yield the encoders of the library; the bundled one and folders if none was given or created yet."""
    from nearsay.indexer.encoders import Encoders

    if LIBRARY_GIVEN in click.get_current_context().meta or Path(place.library).exists():
        with place.open() as library:
            yield library.encoders
    else:
        yield Encoders(Path(place.library))


@encoders.command()
def encode(
    file: str,
    out: Path = option("File to write: .npy, or .npz with --tokens."),
    encoder: str = ONE_ENCODER,
    text: str | None = TEXT,
    layers: str | None = option(
        "Hidden layers to take features from: last, second-to-last, sum-last-4, concat-last-4, sum-all, or "
        "a layer's number, where 0 is the embeddings.",
        metavar="LAYERS",
        shown="last, if --pooling or --tokens is given",
    ),
    pooling: Literal["cls", "mean", "max"] | None = POOLING(shown="mean, if --layers is given"),
    dtype: Literal["float32", "int8", "binary"] = option(
        "Data type of the stored vectors. int8 takes a quarter of the space of float32, binary a "
        "thirty-second; both lose accuracy.",
        default="float32",
    ),
    ranges: Path | None = option(
        "With --dtype int8: file with the ranges of earlier vectors, a .ranges.npy.", type=FILE
    ),
    tokens: bool = option("Write one vector per token instead of one per text."),
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Encode the texts of FILE into a NumPy array.

    The array has one float32 row per text, in the order of the file. If a row cannot be used, the command
    fails and writes nothing.

    With --layers or --pooling the rows are features of the encoder's BERT, not normalised, instead of the
    encoder's own vectors.

    With --dtype int8 a row holds levels from -128 to 127, and a file beside it (vectors.ranges.npy for
    vectors.npy) holds the minimum and maximum of each dimension; with binary a row holds one bit per
    dimension, eight in a byte.

    With --tokens the file is an .npz with the arrays vectors (one row per token), offsets (text i has the
    tokens offsets[i] to offsets[i+1]-1), token_ids, spans (start and end of the token in its text, in
    characters) and special (true for [CLS] and [SEP]).

    \b
    Example:
        nearsay encoders encode sentences.txt --out vectors.npy
        nearsay encoders encode sentences.txt --out bits.npy --dtype binary
        nearsay encoders encode sentences.txt --out features.npy --layers concat-last-4 --pooling mean
        nearsay encoders encode sentences.txt --out tokens.npz --tokens --layers second-to-last
    """
    from nearsay.training.sentence.compression.vector_file import encode_features, encode_file, encode_tokens

    if tokens and pooling:
        raise click.UsageError(
            "--tokens gives one vector per token and --pooling one per text: use one of them"
        )
    if (dtype != "float32" or ranges) and (tokens or layers or pooling):
        raise click.UsageError("--dtype and --ranges are for the encoder's own vectors, not for features")
    how: dict[str, Any] = {"text": text, "device": run.device, "precision": run.precision}
    if tokens:
        report = encode_tokens(file, out, encoder, layers=layers or "last", **how)
    elif layers or pooling:
        report = encode_features(
            file, out, encoder, layers=layers or "last", pooling=pooling or "mean", **how
        )
    else:
        report = encode_file(file, out, encoder, numbers=dtype, ranges=ranges, **how)
    print_notes(report.notes)
    vectors = counted(report.tokens or report.texts, "vector")
    print_done(report, f"{vectors} of {report.dimension} dimensions in {out}", as_json=as_json)


@encoders.command()
def push(
    name: str = argument(type=ENCODER),
    repository: str = argument("OWNER/NAME"),
    public: bool = option("Make a new repository public instead of private."),
    as_json: bool = JSON,
    _home: AtHand = GROUP,
) -> None:
    """Upload an encoder to the Hugging Face hub, to the repository OWNER/NAME.

    NAME is a name from `encoders list` or a folder. Its run/ is left out. The repository is created if it
    does not exist. Log in with `hf auth login`, or set HF_TOKEN.

    \b
    Example:
        nearsay encoders push my-sentences my-name/my-sentences
    """
    from nearsay.training.sentence.source import push_encoder

    address = push_encoder(name, repository, public=public)
    print_json(Done("pushed", "encoders", 1, address)) if as_json else click.echo(address)
