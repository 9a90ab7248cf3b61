"""Pretraining a BERT: from text and a vocabulary to a model's folder."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertForPreTraining, PreTrainedTokenizerBase

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.prepare import OtherTextError, prepare_text
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.bert_folder import load_bert, load_model
from nearsay.training.bert.mlm import evaluate_mlm, unpaired
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.pretraining_task import PretrainingTask
from nearsay.training.bert.saved_tokenizer import read_tokenizer
from nearsay.training.bert.sizes import BertSize
from nearsay.training.bert.vocabulary_folder import find_vocabulary
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.model_card import LINEAGE_FILE, ModelCard, with_step
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes, processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch, go_on
from nearsay.training.sentence.finished_run import finish_run

_HELD_OUT = "On text held out from training."
_TRAINED_ON = "On the training text, over the last steps of the run."
_USAGE = """
from transformers import {model}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = {model}.from_pretrained("{name}")
"""


def pretraining_card(
    name: str,
    config: BertConfig,
    settings: Mapping[str, JsonValue],
    result: TrainingResult,
    text: PreparedText,
    lineage: Sequence[str],
) -> ModelCard:
    """The model card: what was trained, on how much text, with what result; without file names."""
    left_out = {"texts", "dev", "model", "optimisation", "reading", "examples", "task", "start"}
    left_out |= {"environment", "resumed_with"}
    told = {key: value for key, value in settings.items() if key not in left_out}
    for part in ("examples", "optimisation", "environment"):
        inner = settings.get(part)
        told |= inner if isinstance(inner, dict) else {}
    told.pop("versions", None)
    objective = (
        "from left to right, each token predicted from those before it,"
        if config.is_decoder
        else (f"with masked words{' and next sentences' if 'nsp_loss' in result.metrics else ''}")
    )
    model = "AutoModelForCausalLM" if config.is_decoder else "AutoModelForMaskedLM"
    return ModelCard(
        title=name,
        summary=(
            f"A BERT of {config.num_hidden_layers} layers, width {config.hidden_size} and "
            f"{config.vocab_size:,} WordPiece tokens, pretrained {objective} on {text.tokens:,} tokens of "
            f"{text.documents:,} documents ({text.sentences:,} sentences), of which it saw {result.tokens:,}."
        ),
        library="transformers",
        tags=("bert", "text-generation" if config.is_decoder else "fill-mask", "nearsay"),
        usage=_USAGE.format(name=name, model=model),
        figures=result.evaluation or result.metrics,
        figures_note=_HELD_OUT if result.evaluation else _TRAINED_ON,
        lineage=lineage,
        settings=told,
        limits=("It knows what its training text said, with the errors and prejudices of that.",),
    )


_MOST_ROWS = 2**20  # of a batch, which is made in memory; published ones end at some 65,000
_WEIGHT_BYTES = 4  # float32
_LONGEST_SPAN = 30  # tokens; ten words of three pieces


@dataclass(frozen=True, slots=True)
class Pretraining:
    """The configuration of a pretraining."""

    texts: tuple[str, ...]  # files, folders, patterns
    optimisation: Optimisation
    vocabulary: str | None = None  # a vocabulary's folder, for a new BERT
    size: BertSize | None = None  # of a new BERT; None: small
    start: str | None = None  # a BERT to continue from, instead of vocabulary and size
    examples: ExampleConfig = field(default_factory=ExampleConfig)  # how examples are made
    span_boundary: bool = False  # also train the span-boundary objective, with span masking
    batch: int = 256  # rows per step
    tokens_at_once: int | None = None  # padded tokens in the network at once; None: by the device
    long_length: int | None = 512  # tokens of a row in the last part of the run; None: no such part
    long_share: float = 0.1  # of the run
    reading: PrepareOptions = field(default_factory=PrepareOptions)
    prepared: str | None = None  # where the prepared text is saved; None: with the run, until it ends
    dev: tuple[str, ...] = ()  # held-out texts
    dev_rows: int = 2_000  # maximum rows of it
    evaluate_every: int | None = None  # steps; None: only at the end

    def __post_init__(self) -> None:
        """Raise BadInputError for choices that do not go together."""
        if (self.vocabulary is None) == (self.start is None):
            raise BadInputError(
                "give either a vocabulary for a new BERT (--vocabulary) or a BERT to go on from (--from)"
            )
        if self.start is not None and self.size is not None:
            raise BadInputError(
                f"{self.start} has its size and dropout already; leave --size and --dropout out"
            )
        if self.span_boundary and self.examples.masking is not Masking.SPANS:
            raise BadInputError("the span-boundary objective needs span masking. Add --masking spans")
        if not 1 <= self.batch <= _MOST_ROWS:
            raise BadInputError(f"the batch is {self.batch} rows; give 1 or more, and {_MOST_ROWS} at most")
        if self.tokens_at_once is not None and self.tokens_at_once < 1:
            raise BadInputError(f"{self.tokens_at_once} tokens at once train nothing; give 1 or more")
        if self.evaluate_every is not None and (self.evaluate_every < 1 or not self.dev):
            raise BadInputError("evaluating every so many steps needs 1 or more of them, and --dev")
        if not 0 <= self.long_share < 1:
            raise BadInputError(f"the share of long rows is {self.long_share}; give one from 0 to below 1")
        if self.long_length is not None and self.long_share and self.long_length < self.examples.length:
            raise BadInputError(
                f"long rows of {self.long_length} tokens are shorter than the usual {self.examples.length}. "
                "Give a --long-length that is longer, or --long-share 0 for none"
            )

    @property
    def goes_long(self) -> bool:
        """Whether the last part of the run has longer rows."""
        return bool(self.long_share and self.long_length and self.long_length > self.examples.length)


def pretrain(
    wanted: Pretraining,
    out: str | Path,
    *,
    device: str | None = None,
    reading: Callable[[int, int | None], None] | None = None,
    watch: Watch | None = None,
) -> TrainingResult:
    """Pretrain into the folder `out`, or resume the run there.

    device:  as for `choose_device`; torchrun starts a process for each of several GPUs
    reading: called with the bytes of text that are prepared, and of all

    Raises BadInputError for unusable text, vocabulary or settings, and DiskFullError.
    """
    watch = watch or Watch()
    with RunFolder(out) as folder, processes(device) as joined:
        if joined.leads:
            folder.check()
        else:
            watch = Watch(stop=watch.stop)
        network, tokenizer, lineage, start_sha256 = _network(wanted, watch.report)
        backend = _backend(tokenizer)
        special = SpecialTokens.from_tokenizer(backend)
        place = Path(wanted.prepared) if wanted.prepared else folder.run / "text"
        text = _prepared(wanted, wanted.texts, backend, place, joined, folder, reading, watch.report)
        dev = None
        if wanted.dev:
            say = _of_dev(watch.report)
            dev = _prepared(wanted, wanted.dev, backend, folder.run / "dev-text", joined, folder, None, say)
        network.to(joined.device)
        task = _task(wanted, network, text, special, joined)
        config = _config(wanted, network, start_sha256, text, dev)
        if joined.leads and _begin(wanted, folder, config, joined):
            watch.report(f"going on with the run in {folder.out}")
        joined.wait()
        evaluation = _evaluation(wanted, network, dev, special, watch) if dev else None
        result = train(task, folder, wanted.optimisation, joined, evaluation=evaluation, watch=watch)
        if result.finished and joined.leads:
            _finish(folder, network.cpu(), tokenizer, lineage, text, result)
        joined.wait()
    return result


def _begin(wanted: Pretraining, folder: RunFolder, config: dict[str, JsonValue], joined: Processes) -> bool:
    chosen = wanted.optimisation
    environment = RunEnvironment.here(joined.device, chosen.precision, processes=joined.count)
    return folder.begin(config, environment, exact=chosen.exact_resume)


def _prepared(  # noqa: PLR0917 - one call's parts
    wanted: Pretraining,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    place: Path,
    joined: Processes,
    folder: RunFolder,
    reading: Callable[[int, int | None], None] | None,
    say: Callable[[str], None],
) -> PreparedText:
    """The first process prepares; the others open what it made."""
    if not joined.leads:
        joined.wait()
        return PreparedText.open(place)

    def prepare() -> PreparedText:
        return prepare_text(texts, tokenizer, place, wanted.reading, progress=reading, report=say)

    try:
        made = prepare()
    except OtherTextError as error:
        if place.parent != folder.run:
            raise
        if folder.has_checkpoint:
            raise BadInputError(
                f"{folder.out} holds an unfinished run, and {' and '.join(map(str, texts))}, how it is read, "
                "or the tokenizer has changed since it began. Bring back what was there to resume the run, "
                "or name a new folder to train with what is there now"
            ) from error
        shutil.rmtree(place)  # of a run that never came to a checkpoint
        made = prepare()
    if made.unknown_share == 1:
        raise BadInputError(
            f"every word of {' and '.join(map(str, texts))} is unknown to the vocabulary, and nothing can be "
            "predicted. Give text in the vocabulary's language"
        )
    joined.wait()
    return made


def _of_dev(say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda note: say(f"held-out text: {note}")


def _network(
    wanted: Pretraining, say: Callable[[str], None]
) -> tuple[PretrainingNetwork, PreTrainedTokenizerBase, list[str], str | None]:
    """The network on the CPU, its tokenizer, what came before, and the hash of the weights it starts from."""
    torch.manual_seed(wanted.optimisation.seed)
    start_sha256 = None
    causal = wanted.examples.masking is Masking.CAUSAL
    attention: dict[str, Any] = {"is_decoder": causal, "use_cache": not causal}  # nothing here wants a cache
    if wanted.start is not None:
        bert = load_bert(wanted.start)
        try:
            model = load_model(bert, BertForPreTraining, **attention)
        except BadInputError:
            model = load_model(bert, BertForPreTraining, fresh=("cls", "pooler"), **attention)
            say(f"{bert.name} has not all of the pretraining heads; those that it lacks begin anew")
        if bert.is_causal is not causal:
            ways = "both ways", "from left to right"
            say(f"{bert.name} attended {ways[bert.is_causal]}, and attends {ways[causal]} from now on")
        tokenizer, lineage, positions = bert.pretrained_tokenizer, list(bert.lineage), bert.positions
        start_sha256 = bert.weights_sha256
    else:
        source = find_vocabulary(wanted.vocabulary or "")
        tokenizer = read_tokenizer(source)
        told = source.read_json(LINEAGE_FILE)
        steps = told if isinstance(told, list) else [f"vocabulary {source.path.name}"]
        lineage = [str(step) for step in steps]
        size = wanted.size or BertSize.parse("small")
        special = SpecialTokens.from_tokenizer(_backend(tokenizer))
        _require_room(size, len(tokenizer))
        config = size.config(len(tokenizer), pad_id=special.pad)
        config.update(attention)
        model = BertForPreTraining(config)
        positions = size.positions
    longest = wanted.long_length if wanted.goes_long else wanted.examples.length
    if (longest or 0) > positions:
        raise BadInputError(
            f"rows of {longest} tokens do not fit a BERT of {positions} positions. "
            "Take a shorter --length and --long-length, or --long-share 0"
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    say(f"a BERT of {parameters / 1e6:.1f} million parameters, {model.config.vocab_size:,} tokens")
    network = PretrainingNetwork(
        model,
        next_sentence=wanted.examples.packing is Packing.SENTENCE_PAIRS,
        longest_span=_LONGEST_SPAN if wanted.span_boundary else None,
    )
    return network, tokenizer, lineage, start_sha256


def _require_room(size: BertSize, vocabulary_size: int) -> None:
    """BadInputError for a BERT whose weights alone do not fit the memory that they are made in."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    needed = _WEIGHT_BYTES * size.weights(vocabulary_size)
    if needed > room:
        raise BadInputError(
            f"a BERT of {size.layers} layers, width {size.width} and {size.positions} positions needs "
            f"{needed // 10**9:,} GB for its weights, and this machine has {room // 10**9:,} GB of memory. "
            "Take a smaller --size, such as base, or a shorter --length and --long-length"
        )


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    backend: Tokenizer = tokenizer.backend_tokenizer  # `read_tokenizer` has seen that it is one
    return backend


def _task(
    wanted: Pretraining,
    network: PretrainingNetwork,
    text: PreparedText,
    special: SpecialTokens,
    joined: Processes,
) -> PretrainingTask:
    return PretrainingTask(
        network,
        text,
        special,
        wanted.examples,
        joined,
        batch=wanted.batch,
        seed=wanted.optimisation.seed,
        long_length=wanted.long_length if wanted.goes_long else None,
        long_share=wanted.long_share,
        tokens_at_once=wanted.tokens_at_once,
        precision=wanted.optimisation.precision,
    )


def _evaluation(
    wanted: Pretraining,
    network: PretrainingNetwork,
    dev: PreparedText,
    special: SpecialTokens,
    watch: Watch,
) -> Evaluation:
    # Held-out text is masked token by token, so that runs with different masking can be compared.
    masking = Masking.CAUSAL if wanted.examples.masking is Masking.CAUSAL else Masking.TOKENS
    packing = wanted.examples.packing
    if packing is Packing.SENTENCE_PAIRS and (what := unpaired(dev)) is not None:
        watch.report(f"the held-out text is {what}, so next sentences are not measured on it")
        packing = Packing.FULL_SENTENCES
    examples = replace(wanted.examples, masking=masking, packing=packing)

    def measure() -> dict[str, float]:
        return evaluate_mlm(
            network,
            dev,
            special,
            examples,
            most_rows=wanted.dev_rows,
            progress=lambda rows: go_on(rows, wanted.dev_rows, watch.stop),
        ).metrics()

    return Evaluation(measure, every=wanted.evaluate_every)


def _config(
    wanted: Pretraining,
    network: PretrainingNetwork,
    start_sha256: str | None,
    text: PreparedText,
    dev: PreparedText | None,
) -> dict[str, JsonValue]:
    """What decides the run's numbers; where files lie, and how often is logged and kept, does not."""
    told = ("examples", "span_boundary", "batch", "long_length", "long_share", "dev_rows", "evaluate_every")
    choices = {name: value for name, value in asdict(wanted).items() if name in told}
    speed = ("compile", "log_every", "checkpoint_every", "checkpoint_minutes", "exact_resume")
    model = {
        name: network.bert.config.to_dict()[name]
        for name in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "hidden_dropout_prob",
        )
    }
    return {
        "task": "pretrain",
        "model": model,
        "start_sha256": start_sha256,
        "tokenizer_sha256": text.tokenizer_sha256,
        "text_sha256": text.sha256,
        "dev_sha256": dev.sha256 if dev is not None else None,
        **choices,
        "optimisation": {
            name: value for name, value in asdict(wanted.optimisation).items() if name not in speed
        },
    }


def _finish(
    folder: RunFolder,
    network: PretrainingNetwork,
    tokenizer: PreTrainedTokenizerBase,
    lineage: list[str],
    text: PreparedText,
    result: TrainingResult,
) -> None:
    config, name = network.bert.config, folder.out.resolve().name
    step = (
        f"pretraining: {result.steps:,} steps, {result.tokens:,} tokens, {result.seconds:,.0f} s "
        f"(data sha256 {text.sha256[:12]})"
    )
    card = pretraining_card(name, config, folder.config(), result, text, with_step(lineage, step))
    told: dict[str, JsonValue] = {
        "steps": result.steps,
        "tokens": result.tokens,
        "seconds": round(result.seconds, 1),
        "data_sha256": text.sha256,
        "metrics": dict(result.metrics),
        "evaluation": dict(result.evaluation),
    }

    def save(place: Path) -> None:
        network.trained().save_pretrained(place)
        tokenizer.model_max_length = config.max_position_embeddings
        tokenizer.save_pretrained(place)

    finish_run(folder, save, card, told, kind="pretraining")
