"""Options that several commands share, and the group that commands stand in."""

import gc
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

import click

from nearsay.app import ONLY_CHECKED
from nearsay.app.cli.printing import ROWS_FORMAT
from nearsay.data.document import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nearsay.data.read_options import ReadOptions
    from nearsay.indexer import Library

__all__ = [
    "ENCODER",
    "SEED",
    "CommandGroup",
    "OnCluster",
    "Place",
    "Sharded",
    "TextFields",
    "cluster_options",
    "contract_options",
    "device_option",
    "device_options",
    "dtype_option",
    "encoder_named",
    "encoding_options",
    "json_option",
    "library_at_hand",
    "library_options",
    "limit_option",
    "may_remove",
    "open_library",
    "read_options",
    "removal_options",
    "replace_option",
    "rows_option",
    "sample_option",
    "seed_option",
    "shards_options",
    "text_options",
    "training_run_options",
    "trains_encoder",
    "where_option",
]

SEED = "Seed of the random number generator."
_LONGEST = 200  # characters of a first sentence: no limit that one reaches


class CommandGroup(click.Group):
    """What is too long for a line is broken into several, where click would cut it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands, by name."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(_LONGEST)) for name in self.list_commands(ctx)]
            )


Command = TypeVar("Command", bound=Callable[..., Any])


class Place(TypedDict):
    """What `library_options` gives to a command."""

    library: str
    database: str | None
    device: NotRequired[str | None]  # where something is computed
    precision: NotRequired[str]  # where something is encoded


class OnCluster(Place):
    """What `cluster_options` gives to a command."""

    cluster: str | None
    workers: NotRequired[int | None]
    worker_cpus: NotRequired[float]
    worker_gpus: NotRequired[float]


class Sharded(Place):
    """What `shards_options` gives to a command."""

    cluster: str | None
    partial: bool


def json_option(command: Command) -> Command:
    """`--json`: machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")(command)


def rows_option(command: Command) -> Command:
    """`--json`, and `--format` of a command that prints rows: CSV and JSON lines go the way of `--json`."""

    def as_json(context: click.Context, _: click.Parameter, value: bool) -> bool:
        if value:
            context.meta[ROWS_FORMAT] = "json"
        return bool(context.meta[ROWS_FORMAT] != "table")

    def chosen(context: click.Context, _: click.Parameter, value: str) -> None:
        context.meta[ROWS_FORMAT] = value

    command = click.option(
        "--json", "as_json", is_flag=True, callback=as_json, help="Print one JSON object per line."
    )(command)
    return click.option(
        "--format",
        type=click.Choice(["table", "csv", "jsonl"]),
        default="table",
        show_default=True,
        is_eager=True,  # before --json, which goes before it
        expose_value=False,
        callback=chosen,
        help="Format of the rows that are printed.",
    )(command)


def device_option(command: Command) -> Command:
    """`--device`: of a command that computes."""
    return click.option(
        "--device",
        envvar="NEARSAY_DEVICE",
        show_envvar=True,
        metavar="DEVICE",
        help="Device to compute on: cpu, cuda, cuda:1 or mps.",
        show_default="the fastest available",
    )(command)


class _EncoderName(click.types.StringParamType):
    """A name, folder or hub name of an encoder or BERT; a name of the library at hand becomes its folder."""

    name = "encoder"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, or the folder that it names."""
        del param
        return value if ctx is None or ctx.resilient_parsing else encoder_named(value, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """The encoders and BERTs that come with nearsay or were made in the library; else a path."""
        del param
        from click.shell_completion import CompletionItem

        from nearsay.indexer.encoders import Encoders

        listed = Encoders(Path(ctx.meta.get(_LIBRARY) or "library")).list(berts=True)
        found = [CompletionItem(one.name) for one in listed if one.name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


ENCODER = _EncoderName()
_LIBRARY, _DATABASE = "nearsay.library", "nearsay.database"  # in a context's meta: what --library names


def encoder_named(name: str, ctx: click.Context) -> str:
    """What loads the encoder of a name, as the library at hand knows it; the name itself if it does not."""
    home = ctx.meta.get(_LIBRARY)
    if home is None or ONLY_CHECKED in ctx.meta or not Path(home, "library.json").is_file():
        return name
    from nearsay.data.errors import NearsayError
    from nearsay.indexer import Library
    from nearsay.indexer.encoders import Encoders

    database = ctx.meta.get(_DATABASE) or os.environ.get("NEARSAY_DATABASE")
    try:
        library = Library.open(home, database=database, create=False)
    except NearsayError:  # its catalogue is elsewhere, and where was not said: what lies in the folder counts
        return Encoders(Path(home)).source(name)
    with library:
        return library.encoders.source(name)


def _remembered(key: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        ctx.meta[key] = value
        return value

    return remember


def library_at_hand(command: Command) -> Command:
    """`--library`, for commands that need none: encoders may be called by the names that they have there."""
    return click.option(
        "--library",
        envvar="NEARSAY_LIBRARY",
        show_envvar=True,
        default="library",
        show_default=True,
        metavar="DIR",
        is_eager=True,
        expose_value=False,
        callback=_remembered(_LIBRARY),
        help="Folder of the library.",
    )(command)


def trains_encoder(command: Command) -> Command:
    """Let the library at hand know of the encoder that the command made in its `out`."""

    @wraps(command)
    def wrapped(*given: Any, out: Path, **options: Any) -> Any:  # noqa: ANN401
        result = command(*given, out=out, **options)
        from nearsay.app.cli.printing import print_notes
        from nearsay.indexer.encoders import note_made

        home = Path(click.get_current_context().meta[_LIBRARY])
        try:
            names = note_made(home, out)
        except OSError as error:
            print_notes([f"it could not be noted in {home} ({error.strerror}): give its folder as --encoder"])
        else:
            print_notes(f"--encoder {name} names it in the library {home}" for name in names)
        return result

    return wrapped  # type: ignore[return-value]


def device_options(command: Command) -> Command:
    """`--device` and `--precision`: where and how the encoder runs; and the library that knows its name."""
    return library_at_hand(_run_options(command))


def _run_options(command: Command) -> Command:
    """`--device` and `--precision`: of a command that runs an encoder."""
    command = click.option(
        "--precision",
        type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
        default="auto",
        show_default=True,
        envvar="NEARSAY_PRECISION",
        show_envvar=True,
        help=(
            "Number format that the encoder computes with; auto chooses the fastest that the device supports."
        ),
    )(command)
    return device_option(command)


def training_run_options(command: Command) -> Command:
    """`--log-to` and `--inexact-resume`: of every command that trains in steps."""
    command = click.option(
        "--log-to",
        multiple=True,
        type=click.Choice(["tensorboard", "wandb", "mlflow"]),
        help="Client that also gets the metrics, with its own environment variables. Can be repeated.",
    )(command)
    return click.option(
        "--inexact-resume",
        is_flag=True,
        help="Allow resuming with another device, precision or version, with a warning.",
    )(command)


def library_options(command: Command) -> Command:
    """`--library` and `--database`, given to the command as they are."""
    command = click.option(
        "--database",
        is_eager=True,
        callback=_remembered(_DATABASE),
        envvar="NEARSAY_DATABASE",
        show_envvar=True,
        metavar="URL",
        help="URL of the PostgreSQL database that holds the catalogue.",
        show_default="SQLite in the library",
    )(command)
    return click.option(
        "--library",
        is_eager=True,
        callback=_remembered(_LIBRARY),
        envvar="NEARSAY_LIBRARY",
        show_envvar=True,
        default="library",
        show_default=True,
        metavar="DIR",
        help="Folder of the library.",
    )(command)


def encoding_options(command: Command) -> Command:
    """`library_options` and `device_options`."""
    return library_options(_run_options(command))


def cluster_options(command: Command) -> Command:
    """`encoding_options`, and the Ray cluster whose workers embed."""
    parts: dict[str, Any] = {"type": float, "show_default": True}
    for option in (
        click.option(
            "--worker-gpus",
            default=0.0,
            **parts,
            help="Number of GPUs of each worker; with 0.5 two workers share one.",
        ),
        click.option("--worker-cpus", default=1.0, **parts, help="Number of CPU cores of each worker."),
        click.option(
            "--workers",
            type=int,
            metavar="N",
            help="Maximum number of workers.",
            show_default="as many as fit",
        ),
        click.option(
            "--cluster",
            metavar="ADDRESS",
            help=(
                "Address of the Ray cluster: HOST:PORT of its head node, or auto for the one that "
                "RAY_ADDRESS names or that `nearsay cluster up` started."
            ),
        ),
    ):
        command = option(command)
    return encoding_options(command)


def shards_options(command: Command) -> Command:
    """`encoding_options`, and the Ray cluster whose shards search."""
    command = click.option(
        "--partial", is_flag=True, help="Return results even if some shards do not answer, with a note."
    )(command)
    command = click.option(
        "--cluster",
        metavar="ADDRESS",
        help=(
            "Address of the Ray cluster: HOST:PORT of its head node, or auto for the one that "
            "RAY_ADDRESS names or that `nearsay cluster up` started."
        ),
    )(command)
    return encoding_options(command)


def limit_option(command: Command, *, default: int | None = 20) -> Command:
    """`-n` and `--limit`: how many results are shown."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        default=default,
        show_default=True if default else "all",
        help="Maximum number of results to show.",
    )(command)


def sample_option(command: Command, *, default: int | None = None, least: int = 1) -> Command:
    """`--sample`: how many are drawn to compute from."""
    return click.option(
        "--sample",
        type=click.IntRange(least),
        default=default,
        show_default=True if default else "all",
        metavar="N",
        help="Maximum number of items to compute from, drawn at random.",
    )(command)


def replace_option(command: Command) -> Command:
    """`--replace`: make again what was kept."""
    return click.option("--replace", is_flag=True, help="Replace the result of an earlier run.")(command)


def seed_option(command: Command) -> Command:
    """`--seed`: of what is drawn at random."""
    return click.option("--seed", type=int, default=0, show_default=True, help=SEED)(command)


def where_option(command: Command) -> Command:
    """`--where`: a filter over the documents."""
    return click.option(
        "--where",
        metavar="EXPR",
        help=(
            "Only use documents that match this filter, as in: year >= 2019 and venue in ('acl', 'emnlp')."
        ),
    )(command)


def removal_options(command: Command) -> Command:
    """`--dry-run` and `--yes`: of a command that removes what cannot be brought back."""
    command = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)
    return click.option("--dry-run", is_flag=True, help="Report what would be removed without removing it.")(
        command
    )


def may_remove(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Whether to remove it: asked at a terminal, and never where the command only reports.

    Ends with exit status 1 for no, and where nobody can answer.
    """
    from nearsay.data.errors import BadInputError

    if dry_run:
        click.echo(visible(f"would remove {what}"), err=True)
    elif not yes:
        if not _at_a_terminal():
            raise BadInputError(
                f"this would remove {what}; nothing was done, since there is no terminal to ask at. Add --yes"
            )
        click.confirm(visible(f"Remove {what}?"), abort=True, err=True)
    return not dry_run


def _at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def open_library(place: Place | OnCluster | Sharded, *, create: bool = False) -> "Library":
    """The library that the options name; one that is not there is made only if `create` is true."""
    if "nearsay.indexer" not in sys.modules and gc.isenabled():
        # What is imported is no garbage: nobody looks for any among these 70,000 objects, now or at the end.
        gc.disable()
        try:
            import nearsay.indexer  # noqa: F401
        finally:
            gc.freeze()
            gc.enable()
    from nearsay.indexer import Library

    cluster = None
    if place.get("cluster") is not None:
        from nearsay.indexer import Cluster

        on: dict[str, Any] = {**place}
        cluster = Cluster(
            on["cluster"] or "auto",
            on.get("workers"),
            on.get("worker_cpus", 1.0),
            on.get("worker_gpus", 0.0),
            searches="partial" in on,
            partial=on.get("partial", False),
        )
    return Library.open(
        place["library"],
        database=place["database"],
        device=place.get("device"),
        precision=place.get("precision", "auto"),
        create=create,
        wait=0.0,  # who holds a collection is told at once
        cluster=cluster,
    )


dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    help=(
        "Data type of the stored vectors. float16 takes half the space of float32, int8 a "
        "quarter and loses accuracy."
    ),
    show_default="the collection's, or float32",
)


def contract_options(command: Command) -> Command:
    """`--recall` and `--memory`, given to the command as texts."""
    command = click.option(
        "--memory",
        metavar="SIZE",
        help="Maximum memory of an index, as in 2GB or 512MB.",
        show_default="the collection's, or unlimited",
    )(command)
    return click.option(
        "--recall",
        metavar="SHARE@K",
        help="Share of the K nearest neighbours that an index has to find.",
        show_default="the collection's, or 0.95@10",
    )(command)


_FORMATS = ["txt", "csv", "tsv", "jsonl", "parquet", "markdown", "html", "pdf", "docx"]


class TextFields(TypedDict):
    """What `text_options` gives to a command."""

    text: str | None
    format_: str | None
    whole_file: bool
    encoding: str | None
    max_text_bytes: int


def text_options(command: Command) -> Command:
    """`--text`, `--input-format`, `--whole-file`, `--encoding` and `--max-text-bytes`."""
    for option in (
        click.option(
            "--max-text-bytes",
            type=int,
            default=16 * 2**20,
            show_default=True,
            help="Skip rows whose text has more bytes than this.",
        ),
        click.option(
            "--encoding", metavar="NAME", help="Character encoding of text files.", show_default="UTF-8"
        ),
        click.option(
            "--whole-file", is_flag=True, help="Treat each txt file as one text instead of one text per line."
        ),
        click.option(
            "--input-format",
            "format_",
            type=click.Choice(_FORMATS),
            help="Format of the files.",
            show_default="by the file name",
        ),
        click.option(
            "--text", metavar="FIELD", help="Field that holds the text.", show_default="guessed and reported"
        ),
    ):
        command = option(command)
    return command


def read_options(fields: TextFields) -> "ReadOptions":
    """How the reader reads what the options say."""
    from nearsay.data.read_options import Format, ReadOptions, Split

    return ReadOptions(
        text=fields["text"],
        metadata=(),
        format=None if fields["format_"] is None else Format(fields["format_"]),
        split=Split.FILE if fields["whole_file"] else Split.LINES,
        encoding=fields["encoding"],
        max_text_bytes=fields["max_text_bytes"],
    )
