from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.evaluation.judged.comparison import encoder_size, encoder_speeds


def test_the_parameters_are_those_that_torch_counts(tiny_folder: Path) -> None:
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    parameters, megabytes = encoder_size(tiny_folder)
    assert parameters == sum(parameter.numel() for parameter in model.parameters())
    assert megabytes == pytest.approx((tiny_folder / "model.safetensors").stat().st_size / 1e6)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}]"[:9], b"\x02\0\0\0\0\0\0\0[]"]
)
def test_a_damaged_file_is_told(content: bytes, make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(NearsayError, match=r"model.safetensors is damaged"):
        encoder_size(folder)


def test_every_encoder_is_timed_once_a_round_on_the_same_texts() -> None:
    first, second = WordsEncoder(), WordsEncoder(name="other")
    texts = ["a cat", "the dog sat"]
    speeds = encoder_speeds([first, second], texts, rounds=3)
    assert first.encoded == second.encoded == texts * 4  # once untimed
    assert [len(of_rounds) for of_rounds in speeds] == [3, 3]
    assert all(speed > 0 for of_rounds in speeds for speed in of_rounds)


@pytest.mark.parametrize(("texts", "rounds"), [([], 3), (["a"], 2)])
def test_nothing_to_time_and_too_few_rounds_are_refused(texts: list[str], rounds: int) -> None:
    with pytest.raises(BadInputError, match="3 rounds or more"):
        encoder_speeds([WordsEncoder()], texts, rounds=rounds)
