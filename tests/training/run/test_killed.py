"""A run whose process is killed while it writes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from linear_task import ENVIRONMENT
from torch import nn

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import BadInputError
from nearsay.training.run.checkpoint import Checkpoint, last_checkpoint, write_checkpoint
from nearsay.training.run.run_folder import RunFolder

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    script = Path(__file__).parent / "killed_writer.py"
    subprocess.run([sys.executable, script, folder], check=True, timeout=300, env={"OMP_NUM_THREADS": "1"})
    return folder


def places(folder: Path) -> list[Path]:
    """What a kill left, by the number of the operation; the last one was not killed any more."""
    return sorted(folder.iterdir(), key=lambda place: int(place.name))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(TEMPORARY_PREFIX))


def weight(step: int) -> torch.Tensor:
    torch.manual_seed(step)
    model = nn.Linear(20, 20)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.ones(20)).sum().backward()
    optimiser.step()
    return model.weight.detach()


def test_a_kill_while_a_checkpoint_is_written_leaves_the_last_good_one(killed: Path) -> None:
    found = places(killed / "checkpoint")
    assert len(found) > 12  # three files begun and in their middle, folders, flushes, the rename, the removal
    taken = []
    for place in found:
        model = nn.Linear(20, 20)
        optimiser = torch.optim.AdamW(model.parameters(), fused=True)
        checkpoint = last_checkpoint(place, model, optimiser)
        assert checkpoint is not None
        taken.append(checkpoint.step)
        assert torch.equal(model.weight, weight(checkpoint.step))
        assert {float(optimiser.state[p]["step"]) for p in model.parameters()} == {1.0}
        write_checkpoint(place, Checkpoint(4, 1.0, 1, {}, {}, {}), model, optimiser)
        assert names(place) == [f"step-{checkpoint.step:010}", "step-0000000004"]
        assert list(place.glob(f"{TEMPORARY_PREFIX}*")) == []
    assert taken == sorted(taken)
    assert set(taken) == {2, 3}


def test_a_kill_while_a_run_is_finished_heals(killed: Path) -> None:
    found = places(killed / "finish")
    assert len(found) > 8

    def save(place: Path) -> None:
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (place / name).write_text(name)

    states = []
    for place in found:
        complete = (place / "config.json").exists()
        states.append(complete)
        run = RunFolder(place)
        if complete:
            assert names(place) == ["config.json", "model.safetensors", "run", "tokenizer.json"]
            with pytest.raises(BadInputError, match="holds a finished run"):
                run.begin({"task": "killed"}, ENVIRONMENT)
        else:
            assert run.begin({"task": "killed"}, ENVIRONMENT) is True
            model = nn.Linear(20, 20)
            assert last_checkpoint(run.checkpoints, model, torch.optim.AdamW(model.parameters())) is not None
            run.finish(save)
        assert names(place) == ["config.json", "model.safetensors", "run", "tokenizer.json"]
        assert (place / "model.safetensors").read_text() == "model.safetensors"
        assert [path.name for path in (place / "run").iterdir()] == ["config.json"]
    assert states == sorted(states)  # the model is complete from some moment on
    assert not states[0]
    assert states[-2:] == [True, True]
