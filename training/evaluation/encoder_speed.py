"""How many sentences a second encoders encode, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["EncoderSpeed", "encoder_speeds"]


@dataclass(frozen=True, slots=True)
class EncoderSpeed:
    """Sentences a second of one encoder."""

    median: float  # sentences a second
    lowest: float
    highest: float


def encoder_speeds(
    encoders: Sequence[TextEncoder], texts: Sequence[str], *, rounds: int = 3
) -> list[EncoderSpeed]:
    """Time encoders on the same texts: every encoder once a round, so that a busy machine slows all alike.

    rounds: 3 or more; before the first each encoder runs over some of the texts, untimed
    Tokenizing is in it. The figures are this machine's, and comparable within one call alone. Raises
    BadInputError without texts and for fewer than 3 rounds.
    """
    if not texts or rounds < 3:
        raise BadInputError(
            f"{len(texts)} texts and {rounds} rounds are given; give some texts, and 3 rounds or more"
        )
    seconds: list[list[float]] = [[] for _ in encoders]
    for encoder in encoders:
        for _ in encoder.stream([texts[:8]]):
            pass
    for _ in range(rounds):
        for encoder, taken in zip(encoders, seconds, strict=True):
            started = perf_counter()
            for _ in encoder.stream([texts]):
                pass
            taken.append(perf_counter() - started)
    return [
        EncoderSpeed(len(texts) / median(taken), len(texts) / max(taken), len(texts) / min(taken))
        for taken in seconds
    ]
