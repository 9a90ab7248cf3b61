from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.batch_equality import batch_equality
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

TEXTS = [f"{'the cat sat ' * (row % 5)}mat {row}" for row in range(20)]


class LeakyEncoder(WordsEncoder):
    """Lets a text's vector be moved by .002 for each other text of its window."""

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in super().stream(windows, kind=kind):
            moved = window.vectors + np.float32(0.002) * (len(window.vectors) - 1)
            yield EncodedWindow(moved, window.truncated)


def test_an_encoder_that_forgets_its_mask_is_found_out() -> None:
    report = batch_equality(LeakyEncoder(), TEXTS, sizes=(1, 8))
    assert not any(each.equal for each in report)
    assert [each.texts_together for each in report] == [8, None]
    assert [each.largest_difference for each in report] == pytest.approx([0.014, 0.038], abs=1e-6)
    assert report[1].lowest_cosine < 1


def test_the_real_runtime_gives_the_same_alone_and_in_batches(tiny: Encoder) -> None:
    calls: list[tuple[int, int]] = []
    report = batch_equality(tiny, TEXTS, progress=lambda done, total: calls.append((done, total)))
    assert all(each.equal for each in report)
    assert max(each.largest_difference for each in report) < 1e-5
    assert [each.texts_together for each in report] == [8, 64, None]
    assert calls == [(20, 80), (40, 80), (60, 80), (80, 80)]


@pytest.mark.parametrize(
    ("texts", "sizes", "tolerance"), [([], (1,), 1e-3), (TEXTS, (0,), 1e-3), (TEXTS, (1,), -1.0)]
)
def test_what_cannot_be_measured_is_refused(
    texts: list[str], sizes: tuple[int, ...], tolerance: float, words: WordsEncoder
) -> None:
    with pytest.raises(BadInputError, match="give some texts"):
        batch_equality(words, texts, sizes=sizes, tolerance=tolerance)
