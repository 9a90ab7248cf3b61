"""A sample of texts that can be gone through again."""

import errno
import tempfile
from collections import Counter

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.training.evaluation.text_sample import TextSample


def test_few_texts_are_all_there_in_their_order_as_often_as_wanted() -> None:
    texts = ["one", "", "zwei € 🙂", "one"]
    sample = TextSample(iter(texts), 10)
    assert list(sample) == list(sample) == texts
    assert (len(sample), sample.seen, sample.note) == (4, 4, None)
    assert list(TextSample([], 10)) == []


def test_of_many_texts_so_many_are_drawn_in_their_order_and_it_is_said() -> None:
    sample = TextSample((str(number) for number in range(1000)), 50, seed=3)
    drawn = [int(text) for text in sample]
    assert sample.note == Naming("50 of 1,000", "seed 3")
    assert len(set(drawn)) == 50
    assert drawn == sorted(drawn)
    assert max(drawn) > 500


def test_the_same_seed_draws_the_same_texts() -> None:
    def draw(seed: int) -> list[str]:
        return list(TextSample((str(number) for number in range(300)), 20, seed=seed))

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_every_text_is_as_likely_as_any_other() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(2000):
        drawn.update(TextSample("abcdefgh", 2, seed=seed))
    # 2,000 draws of 2 among 8: 500 each, with a standard deviation of 19.
    assert set(drawn) == set("abcdefgh")
    assert all(abs(count - 500) < 80 for count in drawn.values())


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(BadInputError, match="sample of 0 "):
        TextSample(["a"], 0)


def test_a_full_disk_is_said_with_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile:
        def write(self, _data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullFile())
    with pytest.raises(DiskFullError, match=tempfile.gettempdir()):
        TextSample(["a"], 5)
