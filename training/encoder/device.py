"""The device that an encoder runs on."""

import logging

import torch

from nearsay.data.errors import BadInputError

__all__ = ["choose_device"]

logger = logging.getLogger("nearsay")


def choose_device(requested: str | None = None) -> str:
    """Give the device to use: the one asked for, else a working CUDA GPU, Apple's GPU, or the CPU.

    Raises BadInputError for a device that is not there.
    """
    if requested is None or requested == "auto":
        if _cuda_works():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    _require(requested)
    return requested


def _require(requested: str) -> None:
    remedy = f"Available: {', '.join(_available())}. Name one of these, or none to have it chosen"
    try:
        device = torch.device(requested)
    except RuntimeError as error:
        raise BadInputError(f"there is no device {requested!r}. {remedy}") from error
    there = {
        "cpu": True,
        "mps": torch.backends.mps.is_available(),
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
    }
    if not there.get(device.type, False):
        raise BadInputError(f"the device {requested!r} is not there or torch was built without it. {remedy}")


def _available() -> list[str]:
    cuda = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *cuda, *mps]


def _cuda_works() -> bool:
    """Whether a kernel really runs: a GPU that is too old or broken still counts as available."""
    if not torch.cuda.is_available():
        return False
    try:
        torch.ones(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        logger.warning("a GPU is there but does not work, so the CPU is used: %s", str(error).splitlines()[0])
        return False
    return True
