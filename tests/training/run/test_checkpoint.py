"""A run as it stood after a step."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from naming import Naming
from safetensors.torch import load_file
from torch import Tensor, nn

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.training.run.checkpoint import (
    Checkpoint,
    last_checkpoint,
    load_weights,
    weights_of,
    write_checkpoint,
)


class Tied(nn.Module):
    """An output layer that has its input's weights, and a buffer."""

    def __init__(self, seed: int = 0, width: int = 4) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(6, width)
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, 6)
        self.out.weight = self.words.weight

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.out(self.norm(self.words(rows)))
        return scores


def trained(steps: int, *, seed: int = 0, fused: bool = True) -> tuple[Tied, torch.optim.AdamW]:
    model = Tied(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    for _ in range(steps):
        one_step(model, optimiser)
    return model, optimiser


def one_step(model: Tied, optimiser: torch.optim.AdamW) -> None:
    model(torch.arange(6)).square().mean().backward()
    optimiser.step()
    optimiser.zero_grad()


def at(step: int) -> Checkpoint:
    return Checkpoint(
        step=step,
        seconds=0.1 + 0.2,
        tokens=70,
        data={"cursor": [1, 2]},
        window={"sums": {"loss": [1 / 3, 2.0]}},
        scaler={},
    )


def moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name} {key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def same(these: dict[str, Tensor], those: dict[str, Tensor]) -> bool:
    return these.keys() == those.keys() and all(torch.equal(these[name], those[name]) for name in these)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "checkpoints"


def test_weights_moments_and_all_else_come_back_to_the_last_bit(folder: Path) -> None:
    model, optimiser = trained(3)
    write_checkpoint(folder, at(3), model, optimiser)
    other, its = trained(0, seed=9)
    assert last_checkpoint(folder, other, its) == at(3)
    assert same(weights_of(other), weights_of(model))
    assert same(moments(other, its), moments(model, optimiser))
    assert {float(its.state[p]["step"]) for p in other.parameters()} == {3.0}
    one_step(model, optimiser)
    one_step(other, its)
    assert same(weights_of(other), weights_of(model))
    assert same(moments(other, its), moments(model, optimiser))


def test_an_optimiser_that_is_not_fused_goes_on_too(folder: Path) -> None:
    model, optimiser = trained(2, fused=False)
    write_checkpoint(folder, at(2), model, optimiser)
    other, its = trained(0, seed=9, fused=False)
    last_checkpoint(folder, other, its)
    one_step(model, optimiser)
    one_step(other, its)
    assert same(weights_of(other), weights_of(model))


def test_tied_weights_are_stored_once_and_stay_tied(folder: Path) -> None:
    model, optimiser = trained(1)
    write_checkpoint(folder, at(1), model, optimiser)
    stored = load_file(folder / "step-0000000001" / "model.safetensors")
    assert "words.weight" in stored
    assert "out.weight" not in stored
    assert "norm.running_mean" in stored
    other, its = trained(0, seed=9)
    last_checkpoint(folder, other, its)
    assert other.out.weight is other.words.weight
    assert torch.equal(other.out.weight, model.words.weight)


def test_a_checkpoint_holds_no_pickle(folder: Path) -> None:
    write_checkpoint(folder, at(1), *trained(1))
    assert names(folder / "step-0000000001") == ["model.safetensors", "optimiser.safetensors", "state.json"]
    assert json.loads((folder / "step-0000000001" / "state.json").read_text())["step"] == 1


def test_without_checkpoints_there_is_none(folder: Path) -> None:
    model, optimiser = trained(0)
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    assert last_checkpoint(folder, model, optimiser) is None
    assert same(weights_of(model), before)


def test_the_last_two_are_kept_and_the_last_is_taken(folder: Path) -> None:
    for step in (9, 10, 100):
        write_checkpoint(folder, at(step), *trained(1, seed=step))
    assert names(folder) == ["step-0000000010", "step-0000000100"]
    model, optimiser = trained(0)
    assert last_checkpoint(folder, model, optimiser) == at(100)
    assert same(weights_of(model), weights_of(trained(1, seed=100)[0]))


def damage_weights(path: Path) -> None:
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "model.safetensors").write_bytes(content)


def cut_moments(path: Path) -> None:
    file = path / "optimiser.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def remove_moments(path: Path) -> None:
    (path / "optimiser.safetensors").unlink()


def cut_state(path: Path) -> None:
    (path / "state.json").write_text('{"step": 2, "sec')


def empty_state(path: Path) -> None:
    (path / "state.json").write_bytes(b"")


def state_that_is_a_list(path: Path) -> None:
    (path / "state.json").write_text("[]")


def state_without_hashes(path: Path) -> None:
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"sha256": {}}))


def state_without_step(path: Path) -> None:
    state = json.loads((path / "state.json").read_text())
    del state["step"]
    (path / "state.json").write_text(json.dumps(state))


DAMAGES = [
    damage_weights,
    cut_moments,
    remove_moments,
    cut_state,
    empty_state,
    state_that_is_a_list,
    state_without_hashes,
    state_without_step,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_named_and_the_one_before_it_taken(
    folder: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    for step in (1, 2):
        write_checkpoint(folder, at(step), *trained(step))
    damage(folder / "step-0000000002")
    model, optimiser = trained(0, seed=9)
    with caplog.at_level(logging.WARNING, "nearsay"):
        assert last_checkpoint(folder, model, optimiser) == at(1)
    assert caplog.text == Naming("step-0000000002", "damaged", "one before")
    assert same(weights_of(model), weights_of(trained(1)[0]))


def test_damaged_ones_give_way_to_the_next_that_is_written(folder: Path) -> None:
    for step in (10, 20):
        write_checkpoint(folder, at(step), *trained(1))
    damage_weights(folder / "step-0000000020")
    write_checkpoint(folder, at(15), *trained(1))  # the run went on from 10
    assert names(folder) == ["step-0000000010", "step-0000000015"]
    write_checkpoint(folder, at(20), *trained(1))
    assert names(folder) == ["step-0000000015", "step-0000000020"]


def test_a_damaged_one_is_replaced_when_its_step_comes_again(folder: Path) -> None:
    for step in (1, 2):
        write_checkpoint(folder, at(step), *trained(step))
    cut_state(folder / "step-0000000002")
    write_checkpoint(folder, at(2), *trained(2))
    assert last_checkpoint(folder, *trained(0)) == at(2)


def test_when_all_are_damaged_the_run_does_not_begin_again_unasked(folder: Path) -> None:
    for step in (1, 2):
        write_checkpoint(folder, at(step), *trained(step))
        damage_weights(folder / f"step-{step:010}")
    with pytest.raises(NearsayError, match=r"no checkpoint .*whole.*new folder$"):
        last_checkpoint(folder, *trained(0))


@pytest.mark.parametrize("other", [nn.Linear(4, 6), Tied(width=5)])
def test_another_models_weights_are_refused_and_nothing_of_them_is_taken(
    folder: Path, other: nn.Module
) -> None:
    write_checkpoint(folder, at(1), *trained(1))
    before = {name: tensor.clone() for name, tensor in weights_of(other).items()}
    with pytest.raises(NearsayError, match=r"another model.*new folder$"):
        last_checkpoint(folder, other, torch.optim.AdamW(other.parameters()))
    assert same(weights_of(other), before)


def test_a_file_that_holds_no_weights_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").write_bytes(b"no weights")
    with pytest.raises(NearsayError, match=r"best\.safetensors cannot be read .*new folder$"):
        load_weights(Tied(), tmp_path / "best.safetensors")


@pytest.mark.parametrize("operation", ["write_bytes", "mkdir", "fsync", "rename"])
def test_a_full_disk_leaves_the_last_good_checkpoint_and_nothing_half_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in (1, 2):
        write_checkpoint(folder, at(step), *trained(step))
    target: Any = os if operation == "fsync" else Path
    monkeypatch.setattr(target, operation, full)
    with pytest.raises(DiskFullError, match=r"no room .*step-0000000003 .*Free some space"):
        write_checkpoint(folder, at(3), *trained(3))
    assert names(folder) == ["step-0000000001", "step-0000000002"]
    model, optimiser = trained(0)
    assert last_checkpoint(folder, model, optimiser) == at(2)
    assert same(weights_of(model), weights_of(trained(2)[0]))


def test_a_full_disk_in_the_middle_of_a_file_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def half(path: Path, content: bytes) -> int:
        real(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_checkpoint(folder, at(1), *trained(1))
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(DiskFullError):
        write_checkpoint(folder, at(2), *trained(2))
    assert names(folder) == ["step-0000000001"]


def test_what_a_killed_process_left_is_cleared_away(folder: Path) -> None:
    write_checkpoint(folder, at(1), *trained(1))
    (folder / f"{TEMPORARY_PREFIX}0").mkdir()
    (folder / f"{TEMPORARY_PREFIX}0" / "model.safetensors").write_bytes(b"half")
    assert last_checkpoint(folder, *trained(0)) == at(1)
    write_checkpoint(folder, at(2), *trained(2))
    assert names(folder) == ["step-0000000001", "step-0000000002"]
