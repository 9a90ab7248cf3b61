"""How many tokens go through a model at once, by its size and by the memory that its device has left."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from nearsay.data.errors import NearsayError

if TYPE_CHECKING:
    from torch import nn

    from nearsay.training.encoder.hardware import Precision

_SHARE: Final = 0.6  # of what is left: kernels need room for their own work, and memory is cut into pieces
_FEWEST: Final = 512  # a BERT's longest text
# A CPU's is not asked for: what fits would be another number on every run, and a resume not exact.
_OF_A_CPU: Final = 6 * 2**30
_UPDATE_BYTES: Final = 12  # a weight that is trained has its gradient and AdamW's two moments, in float32
_KEPT: Final = 2  # for the backward pass: what a product gives, and what a norm or an activation makes of it
_PASSING: Final = 4  # while nothing is learned: a layer's products and its sums, and the ones before them
_WIDE: Final = 4096
_ENOUGH: Final = 32_768  # tokens of a batch at most, however large the GPU is
# What other programs hold of a GPU's last tenth does not change a training's budget: the same seed gives the
# same run.
_SURE: Final = 0.9


@dataclass(slots=True)
class TokenBudget:
    """Maximum padded tokens in a model at once during training; larger batches are computed in parts.

    Dropout depends on the parts, so a run keeps its initial budget.
    """

    tokens: int
    fitted: bool = False  # derived from the device's memory, not chosen

    @classmethod
    def of(
        cls,
        chosen: int | None,
        model: "nn.Module",
        device: str,
        precision: "Precision",
        *,
        beside: float = 0.0,
    ) -> Self:
        """The chosen budget; None: the one that fits, see `training_tokens`."""
        return cls(chosen or training_tokens(model, device, precision, beside), fitted=chosen is None)


def tokens_that_fit(free: float, *, numbers: int, bytes_a_number: int, reserved: float = 0) -> int:
    """Return how many padded tokens a device's memory holds, at least as many as one long text has.

    free:     bytes that are left now
    numbers:  that each token has in memory at once
    reserved: bytes of the free ones that something else will take
    """
    return max(int(_SHARE * (free - reserved)) // max(numbers * bytes_a_number, 1), _FEWEST)


def training_tokens(model: "nn.Module", device: str, precision: "Precision", beside: float = 0.0) -> int:
    """Return the tokens whose activations are kept for the backward pass; to be asked before the first step.

    precision: as it was asked for
    beside:    bytes of each token that are kept beside those of the model, as by what computes its loss

    A linear layer's outputs are kept twice. For a BERT of width h that is 18 h numbers a layer; Korthikanti
    et al. 2022 count 17 h, attention's own products left out (section 4, https://arxiv.org/abs/2205.05198).
    """
    from nearsay.training.encoder.hardware import Precision, Processor, resolve_precision

    narrow = resolve_precision(precision, device, Processor.detect()) is not Precision.FLOAT32
    bytes_a_number = 2 if narrow else 4
    numbers = _KEPT * sum(_widths(model)) + round(beside / bytes_a_number)
    if device.startswith("cpu"):
        return tokens_that_fit(_OF_A_CPU, numbers=numbers, bytes_a_number=bytes_a_number)
    trained = sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
    held = sum(weights.nbytes for weights in model.parameters())
    # sentence-transformers' models hold themselves: without this a teacher that was used and one of the seeds
    # before would have their memory yet.
    gc.collect()
    return tokens_that_fit(
        min(_free(device), _SURE * _total(device) - held),
        numbers=numbers,
        bytes_a_number=bytes_a_number,
        reserved=_UPDATE_BYTES * trained,
    )


def inference_tokens(device: str, model: "nn.Module | None" = None, *, kept: int = 0) -> int:
    """Return the tokens of a batch on a GPU when nothing is learned.

    model: None: one as wide as a large BERT
    kept:  numbers of each token that are kept beside those of the layer that is computed
    """
    numbers = _PASSING * max(_widths(model) if model else [], default=_WIDE) + kept
    return min(tokens_that_fit(_free(device), numbers=numbers, bytes_a_number=4), _ENOUGH)


@contextmanager
def naming_out_of_memory(what: str, device: str, remedy: str) -> Iterator[None]:
    """Convert torch's out-of-memory error to one with a remedy."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise NearsayError(f"{what} does not fit the memory of {device}. {remedy}") from error


def _widths(model: "nn.Module") -> list[int]:
    """How many numbers each linear layer gives for a token."""
    from torch import nn

    return [module.out_features for module in model.modules() if isinstance(module, nn.Linear)]


def _free(device: str) -> float:
    """The bytes that are left on a GPU; torch keeps what was freed, and gives it out again."""
    import torch

    if device.startswith("cuda"):
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + kept)
    return _total(device) - torch.mps.driver_allocated_memory()


def _total(device: str) -> float:
    """The bytes that a GPU has."""
    import torch

    if device.startswith("cuda"):
        return float(torch.cuda.mem_get_info(device)[1])
    return float(torch.mps.recommended_max_memory())
