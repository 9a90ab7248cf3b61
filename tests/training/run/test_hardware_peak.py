"""How many operations a second the hardware can do."""

import pytest
import torch

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.loop import hardware_peak


def test_a_processors_peak_is_what_a_product_was_timed_at() -> None:
    peak = hardware_peak("cpu", Precision.FLOAT32)
    assert 1e8 < peak < 1e15


def test_the_best_of_several_products_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from nearsay.training.run import loop as module

    times = iter([0.0, 0.0, 0.0, 0.5, 0.1, 0.1, 0.125, 0.3])  # begin; then each loop: look, start, end
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(module, "_SIDE", {"cpu": 4})
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    assert hardware_peak("cpu", Precision.FLOAT32) == pytest.approx(2 * 4**3 / 0.025)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
    ],
)
@pytest.mark.parametrize("precision", [Precision.BFLOAT16, Precision.FLOAT16])
def test_a_gpu_that_is_known_has_its_makers_figure(
    monkeypatch: pytest.MonkeyPatch, name: str, peak: float, precision: Precision
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    assert hardware_peak("cuda:1", precision) == peak


@pytest.mark.parametrize(
    ("name", "precision"),
    [("NVIDIA L40", Precision.BFLOAT16), ("Strange", Precision.BFLOAT16), ("NVIDIA H200", Precision.FLOAT32)],
)
def test_any_other_is_measured(monkeypatch: pytest.MonkeyPatch, name: str, precision: Precision) -> None:
    asked: list[tuple[object, object]] = []

    def ones(*shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
        asked.append((device, dtype))
        return torch.zeros(2, 2)

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    monkeypatch.setattr(torch, "ones", ones)
    assert hardware_peak("cuda", precision) > 0
    wanted = torch.float32 if precision is Precision.FLOAT32 else torch.bfloat16
    assert asked == [("cuda", wanted)] * 2
