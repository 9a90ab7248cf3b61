import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence import encoder as encoder_module
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TokenizedWindow

WINDOWS = [["the cat", "a dog"], ["sat"], [], ["a " * 20, "mat", "a " * 20]]


def tokenizer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("nearsay-tokenizer")]


@pytest.fixture
def fresh(tiny_folder: Path) -> Encoder:
    """An encoder that the test may take apart."""
    return Encoder.load(tiny_folder, device="cpu", precision=Precision.FLOAT32)


def test_each_window_comes_back_in_order(tiny: Encoder) -> None:
    given = list(tiny.stream(WINDOWS))
    assert [window.truncated for window in given] == [0, 0, 0, 2]
    for window, texts in zip(given, WINDOWS, strict=True):
        np.testing.assert_allclose(window.vectors, tiny.encode_window(texts).vectors, atol=1e-6)
        assert window.vectors.shape == (len(texts), 32)
        assert window.vectors.dtype == np.float32
        assert window.vectors.flags.c_contiguous


def test_no_windows_give_nothing(tiny: Encoder) -> None:
    assert list(tiny.stream([])) == []


def test_queries_are_streamed_with_their_prompt(make_folder: Callable[..., Path]) -> None:
    encoder = Encoder.load(make_folder(prompts={"query": "cat "}), device="cpu", precision=Precision.FLOAT32)
    for windows in ([["a dog"]], [["a dog"], ["sat"]]):
        first = next(iter(encoder.stream(windows, kind=TextKind.QUERY)))
        np.testing.assert_allclose(first.vectors, encoder.encode(["cat a dog"]), atol=1e-6)


def test_the_next_window_is_tokenized_while_the_model_runs(
    fresh: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_tokenized = threading.Event()
    tokenize, start = fresh._tokens.window, fresh._forward.start

    def tokenized(texts: Sequence[str], prompt: str) -> TokenizedWindow:
        window = tokenize(texts, prompt)
        if texts == ["second"]:
            second_tokenized.set()
        return window

    def running(token_ids: list[list[int]], *, prompt_length: int) -> object:
        assert second_tokenized.wait(timeout=60), "the model ran before the next window was tokenized"
        return start(token_ids, prompt_length=prompt_length)

    monkeypatch.setattr(fresh._tokens, "window", tokenized)
    monkeypatch.setattr(fresh._forward, "start", running)
    assert len(list(fresh.stream([["first"], ["second"]]))) == 2


def test_windows_are_read_on_the_calling_thread_one_ahead(tiny: Encoder) -> None:
    read: list[int] = []

    def windows() -> Iterator[list[str]]:
        for number in range(5):
            assert threading.current_thread() is threading.main_thread()
            read.append(number)
            yield ["the cat"]

    stream = tiny.stream(windows())
    assert read == []
    next(stream)
    assert read == [0, 1]
    next(stream)
    assert read == [0, 1, 2]
    stream.close()  # type: ignore[attr-defined]  # it is a generator, which the contract does not promise


def test_closing_early_ends_the_thread(tiny: Encoder) -> None:
    stream = tiny.stream([["a"]] * 100)
    next(stream)
    assert tokenizer_threads()
    stream.close()  # type: ignore[attr-defined]  # it is a generator, which the contract does not promise
    assert not tokenizer_threads()


AHEAD = pytest.mark.parametrize("ahead", [(1, 0), (3, 1)], ids=["cpu", "gpu"])


@AHEAD
@pytest.mark.parametrize("good", [0, 1, 2, 3, 4, 5, 6])
def test_what_reading_raises_comes_out_after_what_was_begun_and_ends_the_thread(
    good: int, ahead: tuple[int, int], fresh: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = as_on_a_gpu(fresh, monkeypatch)
    fresh._ahead, fresh._begun_ahead = ahead

    def windows() -> Iterator[list[str]]:
        for _ in range(good):
            yield ["the cat"]
        raise KeyError("the reader's own error")

    given: list[object] = []
    with pytest.raises(KeyError, match="the reader's own error"):
        given.extend(fresh.stream(windows()))
    assert len(given) == noted.count("begun") == max(good - ahead[0], 0)
    assert not tokenizer_threads()


@AHEAD
def test_what_tokenizing_raises_comes_out_after_the_windows_before(
    ahead: tuple[int, int], fresh: Encoder
) -> None:
    fresh._ahead, fresh._begun_ahead = ahead
    stream = fresh.stream([["a"], ["b"], [3]])  # type: ignore[list-item]  # the mistake under test
    next(stream)
    next(stream)
    with pytest.raises(TypeError, match="not a string"):
        next(stream)
    assert not tokenizer_threads()


def test_one_window_starts_no_thread(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        pytest.fail("a thread was started")

    monkeypatch.setattr(encoder_module, "ThreadPoolExecutor", refuse)
    assert tiny.encode(["the cat", "a dog"]).shape == (2, 32)


def test_encode_cuts_a_long_list_into_windows(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{'a ' * (number % 20)}cat" for number in range(25)]
    whole = tiny.encode(texts)
    monkeypatch.setattr(encoder_module, "_WINDOW_TEXTS", 4)
    np.testing.assert_allclose(tiny.encode(texts), whole, atol=1e-6)


def as_on_a_gpu(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let an encoder read and begin windows as far ahead as for a GPU; what it does is noted in order."""
    noted: list[str] = []
    start = encoder._forward.start

    def starting(token_ids: list[list[int]], *, prompt_length: int) -> Callable[[], object]:
        number = noted.count("begun")
        noted.append("begun")
        finish = start(token_ids, prompt_length=prompt_length)

        def finishing() -> object:
            noted.append(f"fetched {number}")
            return finish()

        return finishing

    monkeypatch.setattr(encoder._forward, "start", starting)
    encoder._ahead, encoder._begun_ahead = 3, 1
    return noted


def test_a_gpu_has_its_next_window_before_the_last_ones_vectors_are_fetched(
    fresh: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [[f"{'a ' * number}cat", "a dog"] for number in range(5)]
    expected = [fresh.encode_window(window).vectors for window in windows]
    noted = as_on_a_gpu(fresh, monkeypatch)
    given = [window.vectors for window in fresh.stream(windows)]
    np.testing.assert_allclose(np.concatenate(given), np.concatenate(expected), atol=1e-6)
    assert noted == [
        *["begun", "begun", "fetched 0", "begun", "fetched 1", "begun", "fetched 2", "begun", "fetched 3"],
        "fetched 4",
    ]


def test_a_gpus_windows_are_read_a_few_ahead_and_no_more(
    fresh: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_a_gpu(fresh, monkeypatch)
    read: list[int] = []

    def windows() -> Iterator[list[str]]:
        for number in range(20):
            read.append(number)
            yield ["the cat"]

    stream = fresh.stream(windows())
    next(stream)
    assert read == [0, 1, 2, 3, 4]
    next(stream)
    assert read == [0, 1, 2, 3, 4, 5]
    stream.close()  # type: ignore[attr-defined]  # it is a generator, which the contract does not promise
    assert not tokenizer_threads()
