"""`nearsay train vocabulary` and `nearsay train pretrain`: a BERT from plain text."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nearsay.app.cli.command import GROUP, argument, command, option
from nearsay.app.cli.options import (
    BATCH,
    BREAKS,
    ENCODER,
    JSON,
    LEARNING_RATE,
    LENGTH,
    MINUTES,
    ONE_SENTENCE_A_LINE,
    REPLACE,
    SEED,
    STEPS,
    STRICT,
    TEXT,
    TOKENS_AT_ONCE,
    WARMUP,
    WEIGHT_DECAY,
    Run,
    TextFields,
    TrainingRun,
    note,
    settings_of,
)
from nearsay.app.cli.printing import print_json, print_notes, print_reports
from nearsay.data.quantity import counted
from nearsay.training.encoder.hardware import Precision

if TYPE_CHECKING:
    from nearsay.data.pretraining.prepare_options import PrepareOptions
    from nearsay.training.bert.pretrain import Pretraining


def prepare_options(
    text: str | None, breaks: str, *, one_sentence_a_line: bool, strict: bool = False
) -> "PrepareOptions":
    """Return how text is split into documents and sentences; text: field of a row that holds it."""
    from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions
    from nearsay.data.read_options import ReadOptions, Split

    return PrepareOptions(
        breaks=Breaks(breaks),
        one_sentence_a_line=one_sentence_a_line,
        strict=strict,
        reading=ReadOptions(text=text, metadata=(), split=Split.LINES, max_text_bytes=64 * 2**20),
    )


@command()
def vocabulary(
    sources: tuple[str, ...] = argument("TEXT…", required=True),
    out: Path = option("Folder to write the vocabulary to."),
    size: int = option("Number of tokens, including special tokens.", default=30_522),
    cased: bool = option(
        "Keep the case of letters, or convert all text to lower case.", "--cased/--uncased", default=False
    ),
    accents: Literal["auto", "keep", "strip"] = option(
        "What to do with accents; auto strips them from uncased text and keeps them in cased text, as BERT "
        "does.",
        default="auto",
    ),
    min_frequency: int = option(
        "Minimum number of times that two parts occur together to become a new token.", default=2
    ),
    alphabet: int = option("Maximum number of different characters; rarer ones become [UNK].", default=1000),
    ascii_: bool = option("Include all ASCII characters.", "--ascii/--no-ascii", default=True),
    special: tuple[str, ...] = option("Additional special token. Can be repeated.", metavar="TOKEN"),
    unused: int = option("Number of unused tokens to reserve: [unused0], [unused1] and so on.", default=0),
    replace: bool = REPLACE,
    fields: TextFields = GROUP,
    as_json: bool = JSON,
) -> None:
    """Train a WordPiece vocabulary.

    TEXT is a file, folder, quoted glob, or - for standard input. Formats: txt, csv, tsv, jsonl, json (each
    also .gz), parquet, markdown, html, pdf. The same texts always give the same vocabulary. It loads in
    transformers with AutoTokenizer.from_pretrained(DIR).

    \b
    Example:
        nearsay train vocabulary novels/ --out my-vocabulary --size 8192
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.reading import read
    from nearsay.training.bert.vocabulary import Accents, VocabularyConfig, train_vocabulary
    from nearsay.training.bert.vocabulary_folder import check_vocabulary_folder, save_vocabulary
    from nearsay.training.evaluation.judged.reports import Trained

    config = VocabularyConfig(size, cased, Accents(accents), min_frequency, alphabet, ascii_, special, unused)
    check_vocabulary_folder(out, replace=replace)
    with ProgressBar("reading") as bar:
        reading = read(sources, fields.reading())
        trained = train_vocabulary(reading.texts(bar.at), config)
    save_vocabulary(trained, out, sources=[source.name for source in reading.sources], replace=replace)
    print_notes([*reading.notes, *trained.notes])
    if as_json:
        print_json(Trained(str(out), {"size": trained.size, **asdict(trained.counts)}))
    else:
        note(f"{counted(trained.size, 'piece')} in {out}")


@dataclass(frozen=True)
class _Pretraining:
    """Data and settings of a pretraining."""

    vocabulary: str | None = option(
        "Folder of a vocabulary from `nearsay train vocabulary`, for a new BERT.", metavar="DIR"
    )
    size: str | None = option(
        "Size of a new BERT: tiny, mini, small, medium, base, large, or LAYERSxWIDTH as in 6x384.",
        metavar="SIZE",
        shown="small",
    )
    start: str | None = option(
        "Name or folder of a BERT to continue training instead of a new one.",
        "--from",
        metavar="BERT",
        type=ENCODER,
    )
    dropout: float | None = option("Dropout of a new BERT.", shown="0.1")
    text: str | None = TEXT
    breaks: Literal["blank-lines", "files", "headings"] = BREAKS
    one_sentence_a_line: bool = ONE_SENTENCE_A_LINE
    strict: bool = STRICT
    prepared: str | None = option(
        "Folder to store the tokenized text in, for reuse by later trainings.", metavar="DIR"
    )
    dev: tuple[str, ...] = option(
        "Held-out text to measure on during the training. Can be repeated.", metavar="TEXT"
    )
    evaluate_every: int | None = option("Number of steps between two measurements on --dev.", metavar="STEPS")
    length: int = LENGTH(128)
    long_length: int = option(
        "Maximum number of tokens in a sequence during the last part of the training.", default=512
    )
    long_share: float = option("Share of the training that uses long sequences.", default=0.1)
    batch: int = BATCH(256)
    masking: Literal["tokens", "whole-words", "spans", "causal"] = option(
        "Unit that is masked together. With causal nothing is masked: each token is predicted from those "
        "before it, and attends to no others. Needs --no-nsp.",
        default="tokens",
    )
    span_boundary: bool = option("Add the span boundary objective of SpanBERT, with --masking spans.")
    no_nsp: bool = option("Train without next sentence prediction, on rows filled with sentences.")
    steps: int | None = STEPS
    minutes: float | None = MINUTES
    learning_rate: float = LEARNING_RATE(1e-4)
    warmup_share: float = WARMUP(0.1)
    weight_decay: float = WEIGHT_DECAY(0.01)
    tokens_at_once: int | None = TOKENS_AT_ONCE
    compile: bool = option(
        "Compile the model with torch.compile. The first steps then take minutes, and whether later ones are "
        "faster depends on the GPU and the model: compare tokens per second before a long training.",
        "--compile/--no-compile",
    )
    seed: int = SEED(0)
    log_every: int = option("Number of steps between two lines of metrics.", default=10)
    checkpoint_every: int | None = option(
        "Number of steps between two checkpoints, besides one every five minutes."
    )
    resuming: TrainingRun = GROUP

    def reading(self) -> "PrepareOptions":
        """Return how text is split into documents and sentences."""
        return prepare_options(
            self.text, self.breaks, one_sentence_a_line=self.one_sentence_a_line, strict=self.strict
        )

    def settings(self, texts: tuple[str, ...], precision: Precision) -> "Pretraining":
        """Return the settings for the library. Raises BadInputError for contradictory options."""
        from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
        from nearsay.training.bert.pretrain import Pretraining
        from nearsay.training.bert.sizes import BertSize
        from nearsay.training.run.optimisation import Optimisation

        size = None
        longest = max(self.length, self.long_length if self.long_share else 0, 512)
        if self.start is None or self.size is not None or self.dropout is not None:
            dropout = 0.1 if self.dropout is None else self.dropout
            size = BertSize.parse(self.size or "small", positions=longest, dropout=dropout)
        return settings_of(
            Pretraining,
            self,
            texts=texts,
            size=size,
            examples=ExampleConfig(
                length=self.length,
                packing=Packing.FULL_SENTENCES if self.no_nsp else Packing.SENTENCE_PAIRS,
                masking=Masking(self.masking),
            ),
            reading=self.reading(),
            optimisation=settings_of(
                Optimisation, self, precision=precision, exact_resume=not self.resuming.inexact_resume
            ),
        )


@command()
def pretrain(
    texts: tuple[str, ...] = argument("TEXT…", required=True),
    out: Path = option("Folder to write the model to."),
    how: _Pretraining = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Pretrain a BERT with masked language modelling and next sentence prediction.

    TEXT is a file, folder or glob. In plain text a blank line ends a document; in jsonl, csv and parquet each
    row is a document. Limit the training by --steps or --minutes. The model loads in transformers; OUT/run
    documents the training. If the command is interrupted, running it again resumes it from the last
    checkpoint. For several GPUs: torchrun --nproc-per-node 4 -m nearsay.app.cli train …

    \b
    Example:
        nearsay train pretrain novels/ --vocabulary my-vocabulary --size mini --minutes 30 --out my-bert
    """
    from nearsay.app.cli.progress import ProgressBar, interruptible
    from nearsay.data.pretraining.prepare import check_text
    from nearsay.training.bert.vocabulary_folder import find_vocabulary
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.sentence.source import find_bert

    for some in filter(None, (texts, how.dev)):
        if os.environ.get("RANK", "0") == "0":  # only the first of several processes reads
            check_text(some, how.reading())
    if how.vocabulary is not None:
        find_vocabulary(how.vocabulary)
    if how.start is not None:
        find_bert(how.start)
    from nearsay.training.bert.pretrain import pretrain as train  # takes seconds, so files are checked first

    with ProgressBar("preparing", unit="bytes") as bar, how.resuming.watched(bar) as watch:
        result = train(
            how.settings(texts, run.precision),
            out,
            device=run.device,
            reading=interruptible(bar.at, watch.stop),
            watch=watch,
        )
    if not result.finished:
        raise KeyboardInterrupt
    if not result.leads:
        return
    facts = {"steps": result.steps, "tokens": result.tokens, "seconds": round(result.seconds, 1)}
    trained = Trained(str(out), facts, training=result.metrics, dev=result.evaluation)
    print_reports([trained], as_json=as_json)
