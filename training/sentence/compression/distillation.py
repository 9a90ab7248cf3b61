"""A smaller encoder that learns to give a larger one's vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

from nearsay.data.durable import require_new
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.sentence_examples.conversion import as_texts, require_translations
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.processes import require_one_process
from nearsay.training.run.run_folder import STUDENT_PREFIX, RunFolder
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.compression.derived_folder import open_model, save_derived
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.structure import cut_base
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.loading import transformer_of
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.source import find_encoder


def kept_layers(encoder: str | Path, out: Path, *, keep: int | Sequence[int]) -> Path:
    """Write an encoder with some of another's transformer layers, and everything else of it, to a new folder.

    keep: numbers of the layers, from 0; or how many, evenly spaced (`spread`)

    It has to be trained before it is useful: distil it from the original. Raises BadInputError for layers
    that do not exist, NearsayError for an architecture whose layers cannot be removed, and like
    `Encoder.load`.

    Sanh et al. 2019, section 3, https://arxiv.org/abs/1910.01108
    """
    require_new(out)
    source, model = open_model(encoder)
    transformer = transformer_of(model, source.folder).auto_model
    owner, attribute, layers = _layers(transformer, source.name)
    chosen = spread(len(layers), keep) if isinstance(keep, int) else tuple(keep)
    if not chosen or list(chosen) != sorted(set(chosen)) or not 0 <= chosen[0] <= chosen[-1] < len(layers):
        raise BadInputError(
            f"layers {', '.join(map(str, chosen)) or '(none)'} cannot be kept of {source.name!r}, which has "
            f"{len(layers)}. Name numbers from 0 to {len(layers) - 1}, each once, in order"
        )
    if odd := sorted(layers[0].state_dict().keys() ^ layers[chosen[0]].state_dict().keys()):
        raise BadInputError(
            f"the first layer of {source.name!r} is unlike the others (in {odd[0]}), so that no other can be "
            f"the first. Keep it, too: layers 0, {', '.join(map(str, chosen))}"
        )
    setattr(owner, attribute, torch.nn.ModuleList([layers[number] for number in chosen]))
    config = transformer.config
    for name in _PER_LAYER:
        if isinstance(kinds := getattr(config, name, None), list):
            setattr(config, name, [kinds[number] for number in chosen])
    config.num_hidden_layers = len(chosen)
    numbers = ", ".join(map(str, chosen))
    return save_derived(
        model,
        source,
        out,
        step=f"kept layers {numbers} of {len(layers)}",
        summary=f"Layers {numbers} of the {len(layers)} of {source.name}: a start for distillation.",
        settings={"layers_kept": list(chosen), "layers_of_the_whole": len(layers)},
        limits=("Nothing was trained since the other layers were taken out.",),
    )


def spread(layers: int, count: int) -> tuple[int, ...]:
    """Choose `count` of the layers, evenly spaced, including the first and the last; one is the last.

    The pooling was trained on the last layer's output: of MiniLM's six, layers 0, 3, 5 give a Spearman
    correlation of 79 on the STS benchmark untrained, 1, 3, 5 give 70, and 0, 2, 4 give 67. Raises
    BadInputError unless 1 <= count <= layers.
    """
    if not 1 <= count <= layers:
        raise BadInputError(f"{count} of {layers} layers cannot be kept. Name a number from 1 to {layers}")
    if count == 1:
        return (layers - 1,)
    return tuple((2 * i * (layers - 1) + count - 1) // (2 * (count - 1)) for i in range(count))


def _layers(transformer: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str, torch.nn.ModuleList]:
    """The list of the layers, and the module and attribute that hold it."""
    count = getattr(getattr(transformer, "config", None), "num_hidden_layers", None)
    for path, module in transformer.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count:
            owner, _, attribute = path.rpartition(".")
            return transformer.get_submodule(owner), attribute, module
    raise NearsayError(
        f"the layers of {name!r}, a {type(transformer).__name__}, are not in a list of which some could be "
        "kept. Take an encoder that stands on BERT, RoBERTa, MPNet or MiniLM"
    )


# Lists with an entry a layer: of ModernBERT, Qwen3 and Gemma 3, and of Longformer
_PER_LAYER: Final = ("layer_types", "mlp_layer_types", "attention_window")
_USUAL: Final = SentenceTraining(epochs=1.0, learning_rate=2e-4)  # as the command's own defaults
_HASH_DIGITS: Final = 12  # of the teacher's weights, in the name of the folder that the student starts from


def distil(
    texts: Sequence[SentenceExamples],
    out: str | Path,
    *,
    teacher: str,
    keep_layers: int | Sequence[int] | None = None,
    student: str | Path | None = None,
    translations: bool = False,
    options: SentenceTraining | None = None,
    dev: JudgedSet | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> SentenceResult:
    """Train an encoder to reproduce a teacher's vectors, into the folder `out`, or resume the run there.

    texts:       of any kind; each distinct text is used once per epoch, labels are ignored
    keep_layers: the student is the teacher with these, or this many, of its layers (`kept_layers`)
    student:     name or folder of the student, instead; with another dimension it learns through a projection
                 that is discarded afterwards
    translations: the columns are a text in a language of the teacher and its translations, which all learn
                  the teacher's vector of that text; otherwise each text learns its own
    options:     None = one epoch at a rate of 2e-4, as in `nearsay train distill`

    Raises BadInputError for rows that are not translations, if not exactly one of `keep_layers` and
    `student` is given, and like `train_sentence_encoder` and `kept_layers`.

    Reimers & Gurevych 2020, https://arxiv.org/abs/2004.09813; Sanh et al. 2019,
    https://arxiv.org/abs/1910.01108
    """
    if (keep_layers is None) == (student is None):
        raise BadInputError("a student is needed, and one alone. Name layers to keep or an encoder")
    run = RunFolder(out)
    require_one_process("a distilled encoder")
    run.check()
    start = None
    if keep_layers is not None:
        # Named by what it is, so that a run which is gone on with cannot be given another.
        named = f"{keep_layers}" if isinstance(keep_layers, int) else "-".join(map(str, keep_layers))
        if not isinstance(keep_layers, int) and len(keep_layers) == 1:
            named = f"only-{named}"  # layer 3 alone is not three layers
        folder = find_encoder(teacher).folder
        if (cut := folder.settings().get("truncate_dim")) is not None:
            raise cut_base(folder, cut)
        weights = combined_sha256(weight_hashes(folder))[:_HASH_DIGITS]
        start = run.run / f"{STUDENT_PREFIX}{named}-{weights}"
        if not start.is_dir():
            kept_layers(teacher, start, keep=keep_layers)
    if translations:
        require_translations(texts)
    objective = ObjectiveConfig(ObjectiveKind.TEACHER)
    return train_sentence_encoder(
        [TrainingSet(one if translations else as_texts(one), objective, guide=teacher) for one in texts],
        out,
        base=start or student or teacher,
        options=options or _USUAL,
        dev=dev,
        tests=tests,
        device=device,
        watch=watch,
    )
