"""Options, and groups of options, that several commands share."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from nearsay.app import ONLY_CHECKED
from nearsay.app.cli.command import FILE, argument, option
from nearsay.app.cli.printing import ROWS_FORMAT, print_done, print_notes
from nearsay.app.cli.progress import ProgressBar, TrainingLine, progress_listener, stoppable
from nearsay.data.document import visible
from nearsay.data.picture import PICTURES
from nearsay.data.read_options import Format, ReadOptions, Split, field_names
from nearsay.data.report import Done
from nearsay.training.encoder.hardware import Precision

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nearsay.indexer import Cluster, Library
    from nearsay.training.run.training_progress import Watch
    from nearsay.training.sentence.encoder import Encoder

Command = TypeVar("Command", bound=Callable[..., Any])
_Settings = TypeVar("_Settings")


class _EncoderName(click.types.StringParamType):
    """A name, folder or hub name of an encoder or BERT; a name of the current library becomes its folder."""

    name = "encoder"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value, or the folder of that name."""
        del param
        return value if ctx is None or ctx.resilient_parsing else encoder_named(value, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Complete the bundled encoder and those of the library, or else a path."""
        del param
        from click.shell_completion import CompletionItem

        from nearsay.indexer.encoders import Encoders

        listed = Encoders(Path(ctx.meta.get(_LIBRARY) or "library")).list(berts=True)
        found = [CompletionItem(one.name) for one in listed if one.name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


ENCODER = _EncoderName()
_LIBRARY, _DATABASE = "nearsay.library", "nearsay.database"  # keys in a context's meta


def encoder_named(name: str, ctx: click.Context) -> str:
    """Return the source of an encoder by its name in the current library, or the name if unknown there."""
    home = ctx.meta.get(_LIBRARY)
    if home is None or ONLY_CHECKED in ctx.meta or not Path(home, "library.json").is_file():
        return name
    from nearsay.data.errors import NearsayError
    from nearsay.indexer import Library
    from nearsay.indexer.encoders import Encoders

    database = ctx.meta.get(_DATABASE) or os.environ.get("NEARSAY_DATABASE")
    try:
        library = Library.open(home, database=database, create=False)
    except NearsayError:  # its catalogue is in an unknown database: use what is in the folder
        return Encoders(Path(home)).source(name)
    with library:
        return library.encoders.source(name)


def _remembered(key: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    def remember(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value == "":  # from an unset variable
            raise click.BadParameter("it is empty. Give a value, or omit the option.", ctx, param)
        ctx.meta[key] = value
        if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
            ctx.meta[f"{key}.given"] = value
        return value

    return remember


def collection_names(ctx: click.Context, _: click.Parameter, beginning: str) -> list[str]:
    """Return the library's collections for completion; [] if its catalogue cannot be read."""
    home = Path(ctx.params.get("library") or "library")
    if not (home / "library.json").is_file():
        return []
    import sqlalchemy as sa

    from nearsay.data.errors import NearsayError
    from nearsay.indexer.catalogue import collections
    from nearsay.indexer.catalogue.database import Database

    # `Library.open` would migrate an old catalogue, which is too slow for completion.
    inside = sa.URL.create("sqlite", database=str(home / "catalogue.sqlite"))
    try:
        with closing(Database(ctx.params.get("database") or inside)) as found, found.reading() as connection:
            return [name for name in collections.names(connection) if name.startswith(beginning)]
    except (NearsayError, sa.exc.SQLAlchemyError):
        return []


def _rows_format(context: click.Context, _: click.Parameter, value: str) -> None:
    context.meta[ROWS_FORMAT] = value


def _rows_as_json(context: click.Context, _: click.Parameter, value: bool) -> bool:
    """CSV and JSON lines are handled like --json, which may also come from a configuration file."""
    format_source, json_source = map(context.get_parameter_source, ("format", "as_json"))
    if value and (
        format_source is not ParameterSource.COMMANDLINE or json_source is ParameterSource.COMMANDLINE
    ):
        context.meta[ROWS_FORMAT] = "json"
    return bool(context.meta[ROWS_FORMAT] != "table")


def _field_names(context: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    names = None if value is None else field_names(value)
    if names == ():
        raise click.BadParameter("it names no field. Name at least one, or omit the option.", context, param)
    return names


def ending(*known: str) -> Callable[[click.Context, click.Parameter, Path | None], Path | None]:
    """Return a callback that rejects other file endings before any work; known: without dots."""

    def check(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
        from nearsay.data.durable import ending_of

        if file is not None:
            ending_of(file, *known)
        return file

    return check


# Output.
JSON = option("Print one JSON object per line.", "--json")
ROWS = option(  # for a command that prints rows
    "Print one JSON object per line.",
    "--json",
    callback=_rows_as_json,
    beside=(
        click.Option(
            ["--format"],
            type=click.Choice(["table", "csv", "jsonl"]),
            default="table",
            show_default=True,
            is_eager=True,  # processed before --json, which overrides it
            expose_value=False,
            callback=_rows_format,
            help="Format of the rows that are printed.",
        ),
    ),
)
LIMIT = option("Maximum number of results to show.", "-n", "--limit", metavar="N", default=20, least=1)
PLOT = option("Write a chart to this file, .png or .svg.", callback=ending(*PICTURES))
# Input.
COLLECTION = argument(shell_complete=collection_names)
WHERE = option(
    "Only use documents that match this filter, as in: year >= 2019 and venue in ('acl', 'emnlp').",
    metavar="EXPR",
)
TEXT = option("Field that holds the text.", metavar="FIELD", shown="guessed and reported")
INPUT_FORMAT = option("Format of the files.", "--input-format", shown="by the file name")
TEXT_ENCODING = option("Character encoding of text files.", metavar="NAME", shown="UTF-8")
MAX_TEXT_BYTES = option("Skip rows whose text has more bytes than this.")
TITLE = option("Field that holds the title, which is embedded together with the text.", metavar="FIELD")
COLUMNS = option(
    "Fields that hold the texts, separated by commas.",
    metavar="A,B",
    shown="guessed",
    type=str,
    callback=_field_names,
)
LABEL = option("Field that holds the label or score.", metavar="FIELD", shown="guessed")
PAIR = option("Field that holds the second text, with --text.", metavar="FIELD")
BREAKS = option(
    "Where a document ends in plain text: at a blank line, at the end of a file, or at a WikiText heading.",
    default="blank-lines",
)
ONE_SENTENCE_A_LINE = option("Treat each line as one sentence instead of splitting it.")
DATE_FIELD = option(
    "Metadata field that holds the date.", metavar="FIELD", shown="the time when a document was added"
)
NAMED_ENCODER = option(
    "Name or folder of the encoder.", metavar="NAME", shell_complete=ENCODER.shell_complete
)
ONE_ENCODER = option("Name or folder of the encoder.", default="all-MiniLM-L6-v2", type=ENCODER)
BERT = option("Name or folder of the BERT.", metavar="BERT", type=ENCODER)
FILES = argument("FILE…", required=True, type=FILE)
SPLIT = option("Split to measure on: judgements in qrels/SPLIT.tsv.", default="test")
# Computation.
SEED = option("Seed of the random number generator.", least=0)
SAMPLE = option("Maximum number of items to compute from, drawn at random.", metavar="N", least=1)
REPLACE = option("Replace the result of an earlier run.")
STRICT = option("Fail if a row cannot be used, instead of skipping it.")
RESAMPLES = option("Number of bootstrap resamples for a confidence interval.", default=1000, least=1)
MODE = option(
    "How to search: by meaning (dense), by words (lexical, which loads no encoder), or by both (hybrid).",
    default="hybrid",
)
UNIT = option("Whether documents or passages are counted or compared.", default="documents")
PORT = option("Port to listen on.", shown="8501, or the next free one")
NO_BROWSER = option("Do not open a browser.")
DTYPE = option(
    "Data type of the stored vectors. float16 takes half the space of float32, int8 a quarter and loses "
    "accuracy.",
    type=click.Choice(["float32", "float16", "int8"]),
    shown="the collection's, or float32",
)
RECALL = option(
    "Share of the K nearest neighbours that an index has to find.",
    metavar="SHARE@K",
    shown="the collection's, or 0.95@10",
)
MEMORY = option(
    "Maximum memory of an index, as in 2GB or 512MB.",
    metavar="SIZE",
    shown="the collection's, or unlimited",
)
# Training.
OUT_ENCODER = option("Folder to write the new encoder to.")
DEV = option(
    "Judged set to measure on during the training, as in sts:dev.tsv or sts:dev.tsv:left,right,score. The "
    "best checkpoint is kept.",
    metavar="SET",
)
EVALUATE = option(
    "Judged set to measure on before and after, as in sts:test.tsv. Can be repeated.", metavar="SET"
)
EPOCHS = option("Number of passes over the training data.")
STEPS = option("Number of training steps.")
MINUTES = option("Length of the training in minutes.")
BATCH = option("Number of rows in a training step.")
LEARNING_RATE = option("Peak learning rate.")
WARMUP = option("Share of the training during which the learning rate rises.", "--warmup")
WEIGHT_DECAY = option("Weight decay, which spares biases and normalisation layers.")
TOKENS_AT_ONCE = option(
    "Maximum number of tokens in the model at once; larger batches are computed in parts.",
    shown="fitted to the device",
)
LENGTH = option("Maximum number of tokens in a sequence.")
DIMENSION = option("Number of dimensions of the vectors.")
POOLING = option("How token vectors are combined into one vector per text.")


@dataclass(frozen=True)
class TrainingRun:
    """How a training in steps resumes, and where its metrics go."""

    inexact_resume: bool = option("Allow resuming with another device, precision or version, with a warning.")
    log_to: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = option(
        "Client that also gets the metrics, with its own environment variables. Can be repeated."
    )

    @contextmanager
    def watched(self, before: ProgressBar | None = None) -> "Iterator[Watch]":
        """Show progress and notes on standard error; Ctrl-C ends the training after its step.

        before: progress bar of the preparation, which the first step closes
        """
        from nearsay.training.run.training_progress import Watch

        with TrainingLine(before) as line, stoppable() as stop:
            yield Watch(listener=line, report=note, stop=stop, log_to=self.log_to)


def refuse_given(why: str, *options: str) -> None:
    """Raise UsageError if the command line gives one of these options, which would have no effect.

    Not if it comes from a configuration file, which may set it for all commands; a job has the file's options
    among its arguments.

    why: follows the option's name
    """
    if progress_listener() is not None:
        return
    source = click.get_current_context().get_parameter_source
    for name in options:
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} {why}")


def settings_of(kind: Callable[..., _Settings], group: object, **others: Any) -> _Settings:  # noqa: ANN401
    """Build a settings dataclass from the group's options of the same names, and `others`."""
    named = (part.name for part in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: getattr(group, name) for name in named if hasattr(group, name)} | others)


def text_columns(text: str | None, pair: str | None) -> tuple[str, ...] | None:
    """Return the fields of --text and --pair; None: detect them. Raises UsageError for --pair alone."""
    if pair is not None and text is None:
        raise click.UsageError(f"--pair {pair} is the field of the second text; add --text for the first")
    return None if text is None else (text,) if pair is None else (text, pair)


def note(text: str) -> None:
    """Print a note on standard error; for callbacks."""
    print_notes([text])


@dataclass(frozen=True)
class TextFields:
    """How texts are read from files."""

    text: str | None = TEXT
    format_: Format | None = INPUT_FORMAT
    whole_file: bool = option("Treat each txt file as one text instead of one text per line.")
    encoding: str | None = TEXT_ENCODING
    max_text_bytes: int = MAX_TEXT_BYTES(16 * 2**20)

    def reading(self, title: str | None = None) -> ReadOptions:
        """Return the options of the reader."""
        return ReadOptions(
            text=self.text,
            title=title,
            metadata=(),
            format=self.format_,
            split=Split.FILE if self.whole_file else Split.LINES,
            encoding=self.encoding,
            max_text_bytes=self.max_text_bytes,
        )


@dataclass(frozen=True)
class Removal:
    """Options of a command that removes something permanently."""

    dry_run: bool = option("Report what would be removed without removing it.")
    yes: bool = option("Do not ask for confirmation.")

    def may(self, what: str, *, harmless: bool = False) -> bool:
        """Return whether to remove it, after asking for confirmation; False for --dry-run.

        harmless: nothing would be lost, so no confirmation is needed

        Exits with status 1 if the user declines, or if there is no terminal to ask at.
        """
        from nearsay.data.errors import BadInputError

        if self.dry_run:
            click.echo(visible(f"would remove {what}"), err=True)
        elif not self.yes and not harmless:
            if not _at_a_terminal():
                raise BadInputError(
                    f"this would remove {what}; nothing was done, because there is no terminal to confirm "
                    "at. Add --yes"
                )
            click.confirm(visible(f"Remove {what}?"), abort=True, err=True)
        return not self.dry_run

    def print_done(self, what: str, count: int, sentence: str, *, as_json: bool) -> None:
        """Print how many were, or would be, removed; sentence: the sentence for those that were."""
        if as_json or not self.dry_run:  # `may` has reported a dry run
            done = Done("would remove" if self.dry_run else "removed", what, count)
            print_done(done, sentence, as_json=as_json)


def _at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


ADDRESS = option(
    "Address of the Ray cluster: HOST:PORT of its head node, ray://HOST:PORT of its client server, or auto "
    "for the one that RAY_ADDRESS names or that `nearsay cluster up` started.",
    metavar="ADDRESS",
)
WORKERS = option("Maximum number of workers.", metavar="N", shown="as many as fit", least=1)
WORKER_CPUS = option("Number of CPU cores of each worker.", default=1.0)


@dataclass(frozen=True)
class AtHand:
    """The library that resolves encoder names, for a command that needs no library otherwise."""

    library: str = option(
        "Folder of the library.",
        metavar="DIR",
        default="library",
        envvar="NEARSAY_LIBRARY",
        show_envvar=True,
        is_eager=True,
        callback=_remembered(_LIBRARY),
    )


@dataclass(frozen=True)
class Computing(AtHand):
    """The device to compute on."""

    device: str | None = option(
        "Device to compute on: cpu, cuda, cuda:1 or mps.",
        metavar="DEVICE",
        envvar="NEARSAY_DEVICE",
        show_envvar=True,
        shown="the fastest available",
    )


@dataclass(frozen=True)
class Run(Computing):
    """The device and precision of an encoder."""

    precision: Precision = option(
        "Number format that the encoder computes with; auto chooses the fastest that the device supports.",
        default="auto",
        envvar="NEARSAY_PRECISION",
        show_envvar=True,
    )

    def loaded(self, name: str) -> "Encoder":
        """Load an encoder with this device and precision."""
        from nearsay.training.sentence.encoder import Encoder

        return Encoder.load(name, device=self.device, precision=self.precision)


@dataclass(frozen=True)
class Place(AtHand):
    """The library to use."""

    database: str | None = option(
        "URL of the PostgreSQL database that holds the catalogue.",
        metavar="URL",
        envvar="NEARSAY_DATABASE",
        show_envvar=True,
        is_eager=True,
        callback=_remembered(_DATABASE),
        shown="SQLite in the library",
    )

    def open(self, *, create: bool = False, cluster: "Cluster | None" = None) -> "Library":
        """Open the library; it is created only if `create` is true."""
        if "nearsay.indexer" not in sys.modules and gc.isenabled():
            # Imports create 70,000 objects that are never garbage: keep the collector away from them.
            gc.disable()
            try:
                import nearsay.indexer  # noqa: F401
            finally:
                gc.freeze()
                gc.enable()
        from nearsay.indexer import Library

        return Library.open(
            self.library,
            database=self.database,
            device=getattr(self, "device", None),
            precision=getattr(self, "precision", "auto"),
            create=create,
            wait=0.0,  # report at once that a collection is locked
            cluster=cluster or self._cluster(),
        )

    def _cluster(self) -> "Cluster | None":
        return None


@dataclass(frozen=True)
class OnDevice(Computing, Place):
    """The library to use, and the device to compute on."""


@dataclass(frozen=True)
class Encoding(Run, Place):
    """The library to use, and the device and precision of its encoder."""


@dataclass(frozen=True)
class OnCluster(Encoding):
    """The same, with the Ray cluster whose workers embed."""

    cluster: str | None = ADDRESS
    workers: int | None = WORKERS
    worker_cpus: float = WORKER_CPUS
    worker_gpus: float = option("Number of GPUs of each worker; with 0.5 two workers share one.", default=0.0)

    def _cluster(self) -> "Cluster | None":
        from nearsay.indexer import Cluster

        if self.cluster is None:
            why = "is for the workers of a cluster: add --cluster ADDRESS"
            refuse_given(why, "workers", "worker_cpus", "worker_gpus")
            return None
        return Cluster(self.cluster or "auto", self.workers, self.worker_cpus, self.worker_gpus)


@dataclass(frozen=True)
class Sharded(Encoding):
    """The same, with the Ray cluster whose shards search."""

    cluster: str | None = ADDRESS
    partial: bool = option("Return results even if some shards do not answer, with a note.")

    def _cluster(self) -> "Cluster | None":
        from nearsay.indexer import Cluster

        if self.cluster is None:
            if self.partial:
                raise click.UsageError("--partial is for the shards of a cluster: add --cluster ADDRESS")
            return None
        return Cluster(self.cluster or "auto", None, 1.0, 0.0, searches=True, partial=self.partial)


def trains_encoder(command: Command) -> Command:
    """Register the encoder that the command writes to `out` in the current library."""

    @wraps(command)
    def wrapped(*given: Any, out: Path, **options: Any) -> Any:  # noqa: ANN401
        result = command(*given, out=out, **options)
        from nearsay.indexer.encoders import note_made

        home = Path(click.get_current_context().meta[_LIBRARY])
        try:
            names = note_made(home, out)
        except OSError as error:
            note(f"it could not be registered in {home} ({error.strerror}): use its folder as --encoder")
        else:
            print_notes(f"use it as --encoder {name} in the library {home}" for name in names)
        return result

    return wrapped  # type: ignore[return-value]
