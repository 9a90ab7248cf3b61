"""A smaller encoder that learns to give a larger one's vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.conversion import as_texts
from nearsay.data.sentence_examples.examples import SentenceExamples
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
    options: SentenceTraining | None = None,
    dev: JudgedSet | None = None,
    tests: Sequence[JudgedSet] = (),
    device: str | None = None,
    watch: Watch | None = None,
) -> SentenceResult:
    """Train an encoder to give a teacher's vectors of texts, into the folder `out`, or go on with the run.

    texts:       of any kind; each different text is learned from once an epoch, and no label is looked at
    keep_layers: the student is the teacher with these of its layers, or so many (`kept_layers`)
    student:     name or folder of the student, instead; with vectors of another length it learns them through
                 a projection that is not kept
    Raises BadInputError unless one of the two is given, and as `train_sentence_encoder` and `kept_layers` do.

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
    objective = ObjectiveConfig(ObjectiveKind.TEACHER)
    return train_sentence_encoder(
        [TrainingSet(as_texts(one), objective, guide=teacher) for one in texts],
        out,
        base=start or student or teacher,
        options=options or SentenceTraining(epochs=1.0),
        dev=dev,
        tests=tests,
        device=device,
        watch=watch,
    )
