"""Training a head: one run for classifiers, taggers and readers, fine-tuned or linear on what is frozen."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import torch

from nearsay.data.answered_questions import AnsweredQuestions
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts
from nearsay.data.tagged_sentences import TaggedSentences
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.heads.example import (
    ExampleTokens,
)
from nearsay.training.bert.heads.fine_tuning import FineTuning, fine_tune, fresh_network, head_device
from nearsay.training.bert.heads.head_settings import (
    ReaderSettings,
    TaggerSettings,
)
from nearsay.training.bert.heads.kinds import LinearFit, Questions, Sentences, Texts
from nearsay.training.bert.heads.linear_head import REGULARISATIONS, chosen_head, held_out_tenth
from nearsay.training.bert.heads.network import HeadNetwork
from nearsay.training.bert.layers import LayerChoice, LayerRule
from nearsay.training.run.metrics_clients import logged_to
from nearsay.training.run.metrics_log import MetricsLog
from nearsay.training.run.model_card import ModelCard, with_step
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import StoppedError, Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.finished_run import finish_run
from nearsay.training.sentence.source import find_encoder

_LIMITS: Final = (
    "It knows its training rows, with the errors and prejudices of those who judged them.",
    "It was measured on text of one kind; on another kind it may be much worse.",
)
_NOT_COPIED = ("*.py", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.onnx", "onnx", "openvino", ".*", "run")


@dataclass(frozen=True, slots=True)
class HeadResult:
    """The result of a head's training; metrics are shares, 0 to 1."""

    finished: bool  # False: it was asked to stop, and the same call resumes it
    seconds: float  # of training
    # over the last steps; of a linear head over all training rows
    training: Mapping[str, float] = field(default_factory=dict)
    dev: Mapping[str, float] = field(default_factory=dict)  # of the weights that were kept
    test: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0  # 0: a linear head, which is solved
    chosen: Mapping[str, JsonValue] = field(default_factory=dict)  # settings chosen by validation


Rows = TypeVar("Rows", LabelledTexts, TaggedSentences, AnsweredQuestions)


def train_head(
    train: Rows,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: Rows | None = None,
    test: Rows | None = None,
    options: FineTuning | LinearFit | None = None,
    length: int = 128,
    settings: ReaderSettings | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Train a head on a BERT into the folder `out`, or resume its training there.

    Labelled texts train a classifier (`BertForSequenceClassification`, of a causal BERT a
    `BertForTokenClassification` whose last token counts), tagged sentences a tagger
    (`BertForTokenClassification`), and answered questions a reader (`BertForQuestionAnswering`), which learns
    the first of a question's answers. With a `LinearFit` the encoder is frozen: its vectors are computed
    once, and the linear layer is a file beside it, which `TextClassifier` and `Tagger` load; a tagger on the
    last layer is still saved as transformers' own.

    dev:      measured after each epoch; the weights with the highest accuracy (classifier) or F1 are kept.
              None: the last ones. For a linear layer it chooses the regularisation; None: a tenth of the rows
              does, and the layer is then fitted on all
    test:     measured at the end
    length:   maximum tokens of a text or pair, which is truncated, or of a window of a sentence
    settings: lengths of a reader's rows, questions and answers; its threshold is ignored

    Raises BadInputError for unusable rows, labels and settings, and DiskFullError.

    Devlin et al. 2019, sections 4.1 to 5.3, https://arxiv.org/abs/1810.04805 (whose feature-based tagger has
    a BiLSTM between features and labels, which nearsay's does not have); Conneau & Kiela 2018,
    https://arxiv.org/abs/1803.05449
    """
    chosen, watch = options or FineTuning(), watch or Watch()
    files = {
        name: file for name, file in (("train", train), ("dev", dev), ("test", test)) if file is not None
    }
    task: Texts | Sentences | Questions
    if isinstance(train, LabelledTexts):
        task = Texts(files, length)
    elif isinstance(train, TaggedSentences):
        task = Sentences(files, length)
    else:
        task = Questions(files, settings or ReaderSettings())
    with RunFolder(out) as folder:
        folder.check()
        run = _Run(folder, task, files)
        if not isinstance(chosen, LinearFit):
            try:
                return _fine_tuned(task, run, chosen, bert, device, watch)
            except StoppedError:  # before the first step, or where it is measured after the last
                return HeadResult(finished=False, seconds=0.0)
        if isinstance(task, Questions):
            raise BadInputError("a reader cannot be a linear layer; fine-tune it")
        return _fitted(task, run, chosen, bert, device, watch)


def _fine_tuned(
    task: Texts | Sentences | Questions,
    run: "_Run",
    chosen: FineTuning,
    bert: str | Path,
    device: str | None,
    watch: Watch,
) -> HeadResult:
    place, precision = head_device(device, chosen.precision)
    base = _fitting_bert(bert, task.length)
    tokens = ExampleTokens(base.tokenizer)
    decided = chosen.settings() | {"length": task.length}
    environment = RunEnvironment.here(place, chosen.precision)
    if run.begin(base, decided, environment, exact=chosen.exact_resume):
        watch.report(f"going on with the run in {run.folder.out}")
    examples = task.examples(tokens, watch)
    network = fresh_network(base, task.kind, task.labels, seed=chosen.seed, device=place)
    task.stand_on(network, tokens, place, precision)
    network.stop = watch.stop
    trained = fine_tune(
        task.kind,
        network,
        examples,
        run.folder,
        chosen,
        pad_id=tokens.special.pad,
        device=place,
        measure=(lambda: task.measured("dev")) if "dev" in run.files else None,
        best=task.best,
        watch=watch,
    )
    if not trained.finished:
        return HeadResult(finished=False, seconds=trained.seconds)
    found = task.settle() if isinstance(task, Questions) else {}
    result = HeadResult(
        finished=True,
        seconds=trained.seconds,
        training=trained.metrics,
        dev=trained.evaluation,
        test=task.measured("test") if "test" in run.files else {},
        steps=trained.steps,
        chosen=found,
    )

    def save(folder: Path) -> None:
        _save_network(network, base, folder)
        task.settings.save(folder)

    run.finish(save, result, what=f", fine-tuned from {base.name}.", usage=task.usage)
    return result


def _fitted(
    task: Texts | Sentences,
    run: "_Run",
    chosen: LinearFit,
    bert: str | Path,
    device: str | None,
    watch: Watch,
) -> HeadResult:
    place, precision = head_device(device, chosen.precision)
    if chosen.layers is None and isinstance(task, Sentences):
        chosen = replace(chosen, layers=LayerChoice(LayerRule.CONCAT_LAST_4))
    base: BertFolder | Encoder
    if chosen.layers is None:
        base = Encoder.load(bert, device=place, precision=chosen.precision)
        source, on = find_encoder(bert).folder.path, "sentence vectors"
    else:
        base = _fitting_bert(bert, task.length)
        source, on = base.path, f"features ({chosen.layers})"
    decided = task.freeze(base, chosen, place, precision) | {"regularisation": chosen.regularisation}
    run.begin(base, decided, RunEnvironment.here(place, precision), exact=True)
    vectors, targets = task.vectors("train", watch), task.targets("train")
    held_out, measured, gold = None, vectors, targets
    if "dev" in run.files:
        measured, gold = task.vectors("dev", watch), task.targets("dev")
    elif (tenth := held_out_tenth(np.array([row.max(initial=0) for row in targets]))) is not None:
        held_out = np.repeat(tenth, [len(row) for row in targets])
        measured, gold = vectors[held_out], [row for row, held in zip(targets, tenth, strict=True) if held]
    found = chosen_head(
        vectors,
        np.concatenate(targets),
        lambda head: task.figures(gold, head.logits(measured).argmax(axis=1))[task.best],
        labels=len(task.labels.names),
        held_out=held_out,
        regularisations=REGULARISATIONS if chosen.regularisation is None else (chosen.regularisation,),
    )
    watch.report(f"C = {found.regularisation:g} of {len(found.tried)} tried, in {found.seconds:.0f} s")
    log = MetricsLog(run.folder.metrics)
    log.rewind(0)
    with logged_to(watch.log_to, run.folder, 0) as log.tell:
        for line in found.lines(task.best):
            log.append(line)
    task.add(found.head)
    result = HeadResult(
        finished=True,
        seconds=found.seconds,
        training=task.figures(targets, found.head.logits(vectors).argmax(axis=1)),
        dev=task.measured("dev") if "dev" in run.files else {},
        chosen={"regularisation": found.regularisation},
        test=task.measured("test") if "test" in run.files else {},
    )
    # a tagger on the last layer is one of transformers' own
    plain = isinstance(task, Sentences) and isinstance(base, BertFolder) and task.on_last_layer(base)

    def save(folder: Path) -> None:
        if plain and isinstance(base, BertFolder):
            network = fresh_network(base, task.kind, task.labels, seed=0, device="cpu")
            with torch.no_grad():
                network.head.weight.copy_(torch.from_numpy(found.head.weights))
                network.head.bias.copy_(torch.from_numpy(found.head.bias))
            _save_network(network, base, folder)
            TaggerSettings(length=task.length).save(folder)
        else:
            # without code, pickles, other runtimes' copies and its training run
            shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED), dirs_exist_ok=True)
            found.head.save(folder)
            task.settings.save(folder)

    run.finish(
        save,
        result,
        what=f": a linear layer on {on} of {base.name}.",
        usage=task.usage if plain else task.linear_usage,
        library="transformers" if plain else "nearsay",
    )
    return result


def _fitting_bert(bert: str | Path, length: int) -> BertFolder:
    """Load a BERT; BadInputError when rows are longer than it has positions for."""
    base = load_bert(bert)
    if length > base.positions:
        raise BadInputError(
            f"rows of {length} tokens do not fit {base.name}, which has {base.positions} positions. "
            f"Take a length of {base.positions} or less"
        )
    return base


def _save_network(network: HeadNetwork, bert: BertFolder, folder: Path) -> None:
    network.transformer.save_pretrained(folder)
    bert.pretrained_tokenizer.save_pretrained(folder)


class _Run:
    """`OUT` becomes the head; `OUT/run` tells how it was made."""

    def __init__(
        self,
        folder: RunFolder,
        task: Texts | Sentences | Questions,
        files: Mapping[str, LabelledTexts | TaggedSentences | AnsweredQuestions],
    ) -> None:
        self.folder, self.files, self._task = folder, files, task

    def begin(
        self,
        base: BertFolder | Encoder,
        decided: Mapping[str, JsonValue],
        environment: RunEnvironment,
        *,
        exact: bool,
    ) -> bool:
        """Create the folder, or find the same run in it; True if there is one to resume."""
        self._lineage, self._environment = base.lineage, environment
        self._settings = {**decided, **self._task.recorded}
        return self.folder.begin(
            {
                "task": str(self._task.kind),
                "base": base.lineage[-1] if base.lineage else "",
                "base_sha256": base.weights_sha256,
                "data": {
                    name: {"file": Path(file.source).name, "sha256": file.sha256, "rows": len(file)}
                    for name, file in self.files.items()
                },
                **self._settings,
            },
            environment,
            exact=exact,
        )

    def finish(
        self,
        save: Callable[[Path], None],
        result: HeadResult,
        *,
        what: str,
        usage: str,
        library: str = "transformers",
    ) -> None:
        """Turn `OUT` into the head: its files, lineage and card, and a plot of the run."""
        kind, train = self._task.kind, self.files["train"]
        name = self.folder.out.resolve().name
        step = f"{kind}: {len(train):,} rows of {Path(train.source).name} (sha256 {train.sha256[:12]})"
        told: dict[str, JsonValue] = {
            "steps": result.steps,
            "seconds": round(result.seconds, 1),
            "training": dict(result.training),
            "dev": dict(result.dev),
            "test": dict(result.test),
            "chosen": dict(result.chosen),
        }
        if result.test:
            note = f"On the {len(self.files['test']):,} test rows, which it was not trained on."
        elif result.dev:
            rows = len(self.files["dev"])
            note = f"On the {rows:,} development rows, which chose the weights: a little too good."
        else:
            over = ", over the last steps of the run" if result.steps else ""
            note = f"On the training rows{over}: too good."
        card = ModelCard(
            title=name,
            summary=self._task.what + what,
            library=library,
            tags=("bert", str(kind), "nearsay"),
            usage=usage.format(name=name),
            figures=result.test or result.dev or result.training,
            figures_note=note,
            lineage=with_step(self._lineage, step),
            settings={**self._settings, **result.chosen, **self._environment.settings()},
            limits=_LIMITS,
        )
        finish_run(self.folder, save, card, told, kind=str(kind))
