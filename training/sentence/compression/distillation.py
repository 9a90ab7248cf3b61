"""A smaller encoder that learns to give a larger one's vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.columns import is_negative_name
from nearsay.data.sentence_examples.conversion import as_texts
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.processes import require_one_process
from nearsay.training.run.run_folder import STUDENT_PREFIX, RunFolder
from nearsay.training.run.watch import Watch
from nearsay.training.sentence.compression.layers import kept_layers
from nearsay.training.sentence.fine_tuning.result import SentenceResult
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.fine_tuning.training_set import TrainingSet
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.source import find_encoder

__all__ = ["distil"]

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
    """Train an encoder to give a teacher's vectors of texts, into the folder `out`, or resume the run there.

    texts:       of any kind; each different text is learned from once an epoch, and no label is looked at
    keep_layers: the student is the teacher with these of its layers, or so many (`kept_layers`)
    student:     name or folder of the student, instead; with vectors of another length it learns them through
                 a projection that is not kept
    translations: the columns hold a text in a language of the teacher and its translations, which all learn
                 the teacher's vector of that text; otherwise each text learns its own
    Raises BadInputError for rows that hold no translations, unless one student is given, and as
    `train_sentence_encoder` and `kept_layers` do.

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
        numbers = [keep_layers] if isinstance(keep_layers, int) else keep_layers
        weights = combined_sha256(weight_hashes(find_encoder(teacher).folder))[:_HASH_DIGITS]
        start = run.run / f"{STUDENT_PREFIX}{'-'.join(map(str, numbers))}-{weights}"
        if not start.is_dir():
            kept_layers(teacher, start, keep=keep_layers)
    if translations:
        _require_translations(texts)
    objective = ObjectiveConfig(ObjectiveKind.TEACHER)
    return train_sentence_encoder(
        [TrainingSet(one if translations else as_texts(one), objective, guide=teacher) for one in texts],
        out,
        base=start or student or teacher,
        options=options or SentenceTraining(epochs=1.0),
        dev=dev,
        tests=tests,
        device=device,
        watch=watch,
    )


def _require_translations(texts: Sequence[SentenceExamples]) -> None:
    for one in texts:
        if one.kind not in {ExampleKind.PAIRS, ExampleKind.TUPLES} or any(map(is_negative_name, one.columns)):
            raise BadInputError(
                f"{one.name} holds {one.kind} in {', '.join(one.columns)}, and translations are two texts or "
                "more of one meaning. Name their fields, the teacher's language first: --text english,german"
            )
