"""Checkpoints: a run as it stood after a step, written whole or not at all.

A checkpoint is a folder of safetensors files and a state.json that names their hashes. Nothing in it is a
pickle, so reading one runs no code.
"""

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from nearsay.data.document import JsonValue
from nearsay.data.durable import TEMPORARY_PREFIX, file_sha256, new_folder, replacing
from nearsay.data.errors import NearsayError

logger = logging.getLogger("nearsay")

_WEIGHTS = "model.safetensors"
_OPTIMISER = "optimiser.safetensors"
_STATE = "state.json"
_KEPT = 2  # the one before the last stays, in case the disk loses the last


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a run has to remember beside its weights and its optimiser."""

    step: int  # steps done
    seconds: float  # of training so far
    tokens: int  # real tokens so far
    data: Mapping[str, JsonValue]  # where in the data the next step begins
    window: Mapping[str, JsonValue]  # metrics since the last line of the log
    scaler: Mapping[str, JsonValue]  # float16's loss scale


def write_checkpoint(folder: Path, checkpoint: Checkpoint, model: nn.Module, optimiser: Optimizer) -> None:
    """Write `folder/step-N`, then remove all but it and the one before; DiskFullError leaves those there."""
    path = folder / _name(checkpoint.step)
    if path.exists():
        shutil.rmtree(path)  # a damaged one, which the run did not go on from
    parts = {
        _WEIGHTS: safetensors.torch.save(weights_of(model)),
        _OPTIMISER: safetensors.torch.save(_optimiser_tensors(model, optimiser)),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    state = {**asdict(checkpoint), "sha256": digests}
    parts[_STATE] = json.dumps(state, indent=1).encode()
    for orphan in folder.glob(f"{TEMPORARY_PREFIX}*"):
        shutil.rmtree(orphan, ignore_errors=True)
    with new_folder(path) as temporary:
        for name, content in parts.items():
            (temporary / name).write_bytes(content)
    found = _found(folder)
    kept = [old for old in found if old.name <= path.name][:_KEPT]  # later ones were damaged
    for old in found:
        if old not in kept:
            shutil.rmtree(old)


def last_checkpoint(folder: Path, model: nn.Module, optimiser: Optimizer) -> Checkpoint | None:
    """Load the last whole checkpoint into model and optimiser; None when there is none.

    A damaged one is named in a warning and the one before it taken. Raises NearsayError when there are
    checkpoints and none is whole.
    """
    found = _found(folder)
    for path in found:
        state = _whole(path)
        if state is None:
            logger.warning("the checkpoint %s is damaged; the one before it is taken", path)
            continue
        load_weights(model, path / _WEIGHTS)
        _load_optimiser(model, optimiser, safetensors.torch.load_file(path / _OPTIMISER))
        return Checkpoint(**{part.name: state[part.name] for part in fields(Checkpoint)})
    if found:
        raise NearsayError(f"no checkpoint in {folder} is whole. Begin again in a new folder")
    return None


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's weights and buffers by name; of tied ones the first name alone."""
    seen: set[int] = set()
    weights: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach().contiguous()
    return weights


def load_weights(model: nn.Module, file: Path) -> None:
    """Put a file's weights into the model; NearsayError when they are not the model's."""
    try:
        weights = safetensors.torch.load_file(file)
    except (SafetensorError, OSError) as error:
        raise NearsayError(f"{file} cannot be read ({error}). Begin again in a new folder") from error
    wanted = weights_of(model)
    if weights.keys() != wanted.keys() or any(weights[n].shape != wanted[n].shape for n in wanted):
        raise NearsayError(f"{file} holds the weights of another model. Begin again in a new folder")
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(weights[name])


def _optimiser_tensors(model: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}:{name}": torch.as_tensor(value).contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def _load_optimiser(model: nn.Module, optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for full, tensor in tensors.items():
        key, _, name = full.partition(":")
        parameter = parameters[name]
        on_cpu = key == "step" and not optimiser.defaults.get("fused")
        optimiser.state[parameter][key] = tensor if on_cpu else tensor.to(parameter.device)


def _whole(path: Path) -> dict[str, Any] | None:
    """The state of a checkpoint whose files are what it says they are."""
    try:
        state = json.loads((path / _STATE).read_text("utf-8"))
        digests = {name: file_sha256(path / name) for name in (_WEIGHTS, _OPTIMISER)}
        whole = state["sha256"] == digests and all(part.name in state for part in fields(Checkpoint))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if whole else None


def _found(folder: Path) -> list[Path]:
    """The checkpoints, newest first."""
    return sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)


def _name(step: int) -> str:
    return f"step-{step:010}"


_TOLD = "evaluation"  # where the file's metadata says how its weights evaluated


class BestWeights:
    """Keeps a model's weights in a file whenever a metric is higher than ever.

    The file says itself how its weights evaluated. A run that goes on from an older checkpoint thus never
    takes them for others.
    """

    def __init__(self, file: Path, metric: str | None) -> None:
        """`metric`: None keeps nothing."""
        self._file = file
        self._metric = metric
        self._evaluation: dict[str, float] = {}

    def offer(self, model: nn.Module, evaluation: Mapping[str, float]) -> None:
        """Keep the weights if they are better; of equal ones the first stay, and anything is above NaN."""
        if self._metric is None:
            return
        if self._metric not in evaluation:
            raise NearsayError(
                f"the evaluation gives no {self._metric!r} to choose the best weights by. "
                f"Name one of these: {', '.join(evaluation)}"
            )
        value, highest = evaluation[self._metric], self._evaluation.get(self._metric, math.nan)
        if not self._evaluation or value > highest or (math.isnan(highest) and not math.isnan(value)):
            told = {_TOLD: json.dumps(dict(evaluation))}
            with replacing(self._file) as stream:
                stream.write(safetensors.torch.save(weights_of(model), metadata=told))
            self._evaluation = dict(evaluation)

    def restore(self, model: nn.Module) -> dict[str, float] | None:
        """Put the best weights into the model and give their evaluation; None when none were kept."""
        if not self._evaluation:
            return None
        load_weights(model, self._file)
        return self._evaluation

    def resume(self) -> None:
        """Go on from the file, if there is one; a damaged one is named in a warning and forgotten."""
        if self._metric is None or not self._file.is_file():
            return
        try:
            with safe_open(self._file, "pt") as weights:
                evaluation = json.loads((weights.metadata() or {})[_TOLD])
            self._evaluation = {name: float(value) for name, value in evaluation.items()}
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
            logger.warning("the best weights so far, %s, are damaged and left out: %s", self._file, error)
