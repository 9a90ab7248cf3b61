"""The folder that a head's training fills: what decided it, what came of it, and where it comes from."""

import importlib.metadata
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert, load_model
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, narrow_linear_weights
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.model_card import ModelCard
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.run_plot import plot_run
from nearsay.training.sentence.lineage import LINEAGE_FILE
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import refuse_unsafe

__all__ = [
    "HeadFolder",
    "HeadResult",
    "copy_encoder",
    "load_saved_network",
    "save_network",
]


_NOT_COPIED = ("*.py", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.onnx", "onnx", "openvino", ".*", "run")


def load_saved_network(
    folder: str | Path, kind: HeadKind, *, device: str, precision: Precision
) -> tuple[BertFolder, HeadNetwork]:
    """Load a head of transformers for asking; its encoder's matrices are stored in the precision.

    precision: a resolved one
    Raises as `load_bert` does, and BadInputError when the folder holds no head of this kind.
    """
    bert = load_bert(folder)
    wanted = kind.transformer_class
    if wanted.__name__ not in (bert.config.architectures or ()):
        there = ", ".join(bert.config.architectures or ()) or "no head"
        raise BadInputError(
            f"{folder} holds {there}, and a {kind} is a {wanted.__name__}. "
            f"Name the folder of one, or train it: nearsay train {kind} FILE --bert {folder} --out DIR"
        )
    network = HeadNetwork(load_model(bert, wanted))
    network.to(device)
    narrow_linear_weights(network.transformer.bert, precision)
    return bert, network.eval()


def save_network(network: HeadNetwork, bert: BertFolder, folder: Path) -> None:
    """Write a network into a folder as transformers does: config.json, safetensors and the tokenizer."""
    network.transformer.save_pretrained(folder)
    bert.pretrained_tokenizer.save_pretrained(folder)


def copy_encoder(source: Path, folder: Path) -> None:
    """Copy an encoder's folder, without code, pickles, other runtimes' copies and its training run."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED), dirs_exist_ok=True)


_LIMITS = (
    "It knows its training rows, with the errors and prejudices of those who judged them.",
    "It was measured on text of one kind; on another kind it may be much worse.",
)


class HeadData(Protocol):
    """A file of judged rows."""

    @property
    def source(self) -> str:
        """The file as the user gave it."""

    @property
    def sha256(self) -> str:
        """Of the file."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class HeadResult:
    """What came of a head's training; figures are shares, 0 to 1."""

    finished: bool  # False: it was asked to stop, and the same call goes on
    seconds: float  # of training
    training: Mapping[str, float] = field(default_factory=dict)  # over the last steps
    dev: Mapping[str, float] = field(default_factory=dict)  # of the weights that were kept
    test: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0  # 0: a linear head, which is solved
    chosen: Mapping[str, JsonValue] = field(default_factory=dict)  # settings that were found by trying


class HeadFolder:
    """`OUT` becomes the head; `OUT/run` tells how it was made."""

    def __init__(
        self,
        out: str | Path,
        kind: HeadKind,
        *,
        lineage: Sequence[str],
        weights_sha256: str,
        data: Mapping[str, HeadData | None],
        settings: Mapping[str, JsonValue],
        environment: RunEnvironment,
    ) -> None:
        """Say what is to be made.

        lineage, weights_sha256: of the BERT that it stands on
        data:     train, and perhaps dev and test
        settings: all else that decides the run's numbers, but for the `environment`
        """
        self.run = RunFolder(out)
        self._kind = kind
        self._lineage = tuple(lineage)
        self._data = {name: file for name, file in data.items() if file is not None}
        self._settings = dict(settings)
        self._environment = environment
        self._weights_sha256 = weights_sha256

    def begin(self, *, exact: bool = True) -> bool:
        """Make the folder, or find the same run in it; True when there is one to resume.

        Raises BadInputError as `RunFolder.begin` does.
        """
        return self.run.begin(
            {
                "task": str(self._kind),
                "base": self._lineage[-1] if self._lineage else "",
                "base_sha256": self._weights_sha256,
                "data": {
                    name: {"file": Path(file.source).name, "sha256": file.sha256, "rows": len(file)}
                    for name, file in self._data.items()
                },
                **self._settings,
            },
            self._environment,
            exact=exact,
        )

    def finish(
        self, save: Callable[[Path], None], result: HeadResult, *, what: str, usage: str, library: str
    ) -> None:
        """Make `OUT` the head: its files, lineage and card, and a plot of the run.

        save:    writes the head's files into a folder
        what:    what it is, in a sentence
        usage:   Python that loads it from `{name}`
        library: that loads it
        """
        name = self.run.out.resolve().name
        plot_run(read_metrics(self.run.metrics), self.run.plot, title=f"{str(self._kind).title()} {name}")
        train = self._data["train"]
        step = (
            f"{self._kind}: {len(train):,} rows of {Path(train.source).name} "
            f"(sha256 {train.sha256[:12]}), nearsay {importlib.metadata.version('nearsay')}"
        )
        lineage = [*self._lineage, step]
        self.run.write_run_json(
            "result.json",
            {
                "steps": result.steps,
                "seconds": round(result.seconds, 1),
                "training": dict(result.training),
                "dev": dict(result.dev),
                "test": dict(result.test),
                "chosen": dict(result.chosen),
            },
        )
        card = ModelCard(
            title=name,
            summary=what,
            library=library,
            tags=("bert", str(self._kind), "nearsay"),
            usage=usage.format(name=name),
            figures=result.test or result.dev or result.training,
            figures_note=self._measured_on(result),
            lineage=lineage,
            settings={**self._settings, **result.chosen, **self._environment.settings()},
            limits=_LIMITS,
        )

        def save_all(place: Path) -> None:
            with quiet_libraries():
                save(place)
            (place / LINEAGE_FILE).write_text(json.dumps(lineage, indent=1, ensure_ascii=False), "utf-8")
            (place / "README.md").write_text(card.markdown(), "utf-8")

        self.run.finish(save_all)
        refuse_unsafe(EncoderFolder(self.run.out))  # what we make must be what we take

    def _measured_on(self, result: HeadResult) -> str:
        if result.test:
            return f"On the {len(self._data['test']):,} test rows, which it was not trained on."
        if result.dev:
            rows = len(self._data["dev"])
            return f"On the {rows:,} development rows, which chose the weights: a little too good."
        return "On the training rows, over the last steps of the run: too good."
