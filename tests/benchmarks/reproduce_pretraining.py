"""What reproduce.py pretrains, and at what size: budgets, the bench, and BERTs that are kept and resumed.

Every BERT is a folder in the bench's `work`, named by its budget and text, and made once.
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from nearsay.data.pretraining.batches import PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read
from nearsay.training.bert.pretrain import Pretraining, pretrain
from nearsay.training.bert.saved_tokenizer import read_tokenizer
from nearsay.training.bert.sizes import BertSize
from nearsay.training.bert.vocabulary import VocabularyConfig, train_vocabulary
from nearsay.training.bert.vocabulary_folder import save_vocabulary
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import TrainingProgress, Watch

__all__ = ["FILES", "SIZES", "Bench", "Budget", "Figure", "PretrainingBudget"]

FILES = (
    "text_eltec_eng/novels.jsonl.gz",
    *(f"cad_nli/all_combined_{part}.tsv" for part in ("train", "dev", "test")),
    "snli/dev.tsv",
    *(f"stsb/{part}.tsv" for part in ("train", "dev", "test")),
    *(f"ner_wnut17/{part}.conll" for part in ("train", "dev", "test")),
    "qa_xquad_en/xquad.en.json",
)
DEV_NOVELS = 2  # the last ones: held out, to measure pretraining on


@dataclass(frozen=True)
class PretrainingBudget:
    """A BERT and how long it is trained."""

    layers: int
    width: int
    vocabulary: int  # pieces
    novels: int | None  # that are read, from the first on; None: all but those held out
    length: int  # tokens of a row in the first nine tenths of the run
    long_length: int  # in the rest; also the BERT's positions
    batch: int  # rows of a step
    steps: int
    rate: float  # its highest
    passes: int  # over the text of the masking experiment
    pass_novels: int  # of which that text is


@dataclass(frozen=True)
class Budget:
    """What a size may take: steps, and epochs where a head's run is counted in them."""

    pretraining: PretrainingBudget
    head_epochs: int
    head_rate: float
    nli_steps: int
    sts_steps: int
    sentence_batch: int
    sentence_rate: float
    distillation_steps: int
    timed_texts: int  # encoded one at a time, five times


SIZES: Mapping[str, Budget] = {
    "small": Budget(
        PretrainingBudget(4, 128, 4_096, None, 64, 128, 16, 3_000, 2e-3, 4, 2),
        head_epochs=3,
        head_rate=3e-4,
        nli_steps=600,
        sts_steps=500,
        sentence_batch=16,
        sentence_rate=2e-4,
        distillation_steps=300,
        timed_texts=200,
    ),
    "medium": Budget(
        PretrainingBudget(4, 256, 8_192, None, 128, 256, 128, 7_000, 1e-3, 10, 10),
        head_epochs=3,
        head_rate=1e-4,
        nli_steps=1_136,  # an epoch
        sts_steps=1_440,  # four epochs
        sentence_batch=16,
        sentence_rate=1e-4,
        distillation_steps=1_000,
        timed_texts=200,
    ),
    "base": Budget(
        PretrainingBudget(12, 768, 30_522, None, 128, 512, 256, 10_000, 1e-4, 10, 20),
        head_epochs=3,
        head_rate=5e-5,
        nli_steps=1_136,  # an epoch
        sts_steps=1_440,  # four epochs
        sentence_batch=16,
        sentence_rate=2e-5,
        distillation_steps=2_000,
        timed_texts=1_000,
    ),
}


@dataclass(frozen=True)
class Bench:
    """Where the data are, where pretraining is kept, and the size."""

    data: Path
    work: Path
    scratch: Path  # for what is not kept
    budget: Budget
    device: str | None = None
    seed: int = 0

    @property
    def pretrained(self) -> Path:
        """The folder of everything that this budget pretrains."""
        told = f"{self.budget.pretraining} {self.seed} {sha256(self.data / FILES[0])}"
        return self.work / hashlib.sha256(told.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Figure:
    """What was measured."""

    value: float
    low: float | None  # of its interval; None: it is counted, not estimated
    high: float | None
    n: int  # what it was measured on
    of: str  # the name of these
    interval: str = "95 % bootstrap over the test items"
    more: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        rounded = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }
        return {name: value for name, value in rounded.items() if value not in (None, {})}


@cache
def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def told(progress: TrainingProgress) -> None:
    if progress.step % 100 == 0:
        loss = progress.metrics.get("loss", 0.0)
        sys.stderr.write(
            f"step {progress.step} of {progress.steps}, loss {loss:.3f}, {progress.seconds_left:.0f} s left\n"
        )


def reported(note: str) -> None:
    print(note, file=sys.stderr)


WATCH = Watch(listener=told, report=reported)


PRETRAININGS: Mapping[str, Mapping[str, object]] = {
    "mlm-nsp": {},
    "mlm": {"packing": Packing.FULL_SENTENCES},
    "left-to-right": {"packing": Packing.FULL_SENTENCES, "masking": Masking.CAUSAL},
    "spans-nsp": {"masking": Masking.SPANS},
}


@cache
def novels(bench: Bench) -> Mapping[str, Path]:
    """The text as plain rows: to train on, held out, and of the masking experiment."""
    with gzip.open(bench.data / FILES[0], "rt", encoding="utf-8") as file:
        rows = list(file)
    budget, kept = bench.budget.pretraining, rows[:-DEV_NOVELS]
    parts = {
        "train": kept[: budget.novels],
        "dev": rows[-DEV_NOVELS:],
        "passes": kept[: budget.pass_novels],
    }
    bench.pretrained.mkdir(parents=True, exist_ok=True)
    places = {name: bench.pretrained / f"{name}.jsonl" for name in parts}
    for name, place in places.items():
        if not place.is_file():
            part = place.with_suffix(".part")
            part.write_text("".join(parts[name]), "utf-8")
            part.replace(place)
    return places


@cache
def vocabulary(bench: Bench) -> Path:
    folder = bench.pretrained / "vocabulary"
    if not folder.is_dir():
        options = ReadOptions(metadata=(), split=Split.LINES, max_text_bytes=64 * 2**20)
        texts = read([novels(bench)["train"]], options).texts()
        save_vocabulary(
            train_vocabulary(texts, VocabularyConfig(bench.budget.pretraining.vocabulary)), folder
        )
    return folder


def pretraining(bench: Bench, way: Mapping[str, object]) -> Pretraining:
    budget, texts = bench.budget.pretraining, novels(bench)
    return Pretraining(
        texts=(str(texts["train"]),),
        vocabulary=str(vocabulary(bench)),
        size=BertSize(budget.layers, budget.width, positions=budget.long_length),
        examples=ExampleConfig(length=budget.length, **way),  # type: ignore[arg-type]  # names of the settings
        batch=budget.batch,
        long_length=budget.long_length,
        prepared=str(bench.pretrained / "text"),
        dev=(str(texts["dev"]),),
        optimisation=Optimisation(steps=budget.steps, learning_rate=budget.rate, seed=bench.seed),
    )


def run_pretraining(bench: Bench, wanted: Pretraining, out: Path) -> Path:
    if not RunFolder(out).is_finished:
        reported(f"pretraining {out.name}")
        pretrain(wanted, out, device=bench.device, watch=WATCH)
    return out


@cache
def bert(bench: Bench, name: str) -> Path:
    """A pretrained BERT."""
    return run_pretraining(bench, pretraining(bench, PRETRAININGS[name]), bench.pretrained / name)


@cache
def bert_of_passes(bench: Bench, way: str) -> Path:
    """A BERT trained in passes over one text, of which "static" masking repeats the first.

    nearsay masks rows anew in every pass, as a function of the seed. So each pass is a run of its own, which
    goes on from the one before: with the same seed it sees the same rows with the same masks, with another it
    does not. Both ways share their first pass, and both warm up anew in each.
    """
    budget = bench.budget.pretraining
    place = novels(bench)["passes"]
    wanted = replace(
        pretraining(bench, {}),
        texts=(str(place),),
        long_share=0.0,
        prepared=str(bench.pretrained / "passes-text"),
    )
    tokenizer = read_tokenizer(EncoderFolder(vocabulary(bench))).backend_tokenizer
    text = prepare_text([place], tokenizer, bench.pretrained / "passes-text", wanted.reading)
    special = SpecialTokens.from_tokenizer(tokenizer)
    batches = PretrainingBatches(text, special, wanted.examples, batch=budget.batch, seed=bench.seed)
    steps = max(sum(len(batch.lengths) for batch in batches.one_pass()) // budget.batch, 1)
    out = bench.pretrained / "pass-0"
    for number in range(budget.passes):
        seed = bench.seed + (number if way == "dynamic" else 0)
        one = replace(wanted, optimisation=replace(wanted.optimisation, steps=steps, seed=seed))
        if number:
            one = replace(one, vocabulary=None, size=None, start=str(out))
            out = bench.pretrained / f"{way}-{number}"
        run_pretraining(bench, one, out)
    return out


def pretrained_figures(bench: Bench) -> dict[str, object]:
    """What each finished pretraining took and reached on held-out text."""
    found = {}
    for folder in sorted(path for path in bench.pretrained.glob("*") if RunFolder(path).is_finished):
        result = json.loads((folder / "run" / "result.json").read_text("utf-8"))
        evaluation = {name: round(value, 4) for name, value in result["evaluation"].items()}
        found[folder.name] = {name: result[name] for name in ("steps", "tokens")} | evaluation
    return found
