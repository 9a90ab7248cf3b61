import pytest
import torch
from torch.nn import functional

from nearsay.training.encoder import bert as product_module
from nearsay.training.encoder.bert import Product
from nearsay.training.encoder.hardware import Processor

FORMATS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
KINDS = pytest.mark.parametrize("blocked", [True, False])


@pytest.fixture
def layers() -> list[torch.nn.Linear]:
    torch.manual_seed(0)
    return [torch.nn.Linear(24, 40), torch.nn.Linear(24, 8)]


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.randn(70, 24, generator=torch.Generator().manual_seed(1))


def multiplied(
    layers: list[torch.nn.Linear],
    rows: torch.Tensor,
    monkeypatch: pytest.MonkeyPatch,
    *,
    blocked: bool,
    gelu: bool = False,
) -> torch.Tensor:
    if not blocked:
        monkeypatch.setattr(product_module, "_MULTIPLY", None)
    with torch.inference_mode():
        return Product(layers, dtype=rows.dtype, device="cpu", gelu=gelu)(rows)


@KINDS
def test_a_product_by_hand(blocked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 2.0]]))
        first.bias.fill_(10)
        second.weight.copy_(torch.tensor([[-1.0, 0.5]]))
        second.bias.fill_(0)
    result = multiplied([first, second], torch.tensor([[3.0, 4.0]]), monkeypatch, blocked=blocked)
    assert result.tolist() == [[21.0, -1.0]]


@KINDS
@FORMATS
def test_layers_side_by_side_are_the_layers_one_by_one(
    layers: list[torch.nn.Linear],
    rows: torch.Tensor,
    dtype: torch.dtype,
    blocked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = multiplied(layers, rows.to(dtype), monkeypatch, blocked=blocked)
    with torch.no_grad():
        expected = torch.cat([layer(rows) for layer in layers], dim=1)
    assert result.dtype == dtype
    torch.testing.assert_close(
        result.float(), expected, atol=1e-5 if dtype == torch.float32 else 0.05, rtol=0
    )


@KINDS
def test_gelu_is_the_exact_one(
    layers: list[torch.nn.Linear], rows: torch.Tensor, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = multiplied(layers[:1], rows, monkeypatch, blocked=blocked, gelu=True)
    with torch.no_grad():
        linear = layers[0](rows)
    torch.testing.assert_close(result, functional.gelu(linear), atol=1e-5, rtol=0)
    assert (result - functional.gelu(linear, approximate="tanh")).abs().max() > 5e-5


def test_later_changes_of_the_layer_do_not_matter(layers: list[torch.nn.Linear], rows: torch.Tensor) -> None:
    product = Product(layers, dtype=torch.float32, device="cpu")
    with torch.inference_mode():
        before = product(rows)
        layers[0].weight.zero_()
        layers[0].bias.zero_()
        torch.testing.assert_close(product(rows), before, atol=0, rtol=0)


@pytest.mark.parametrize("lacking", ["the processor", "oneDNN"])
def test_without_avx512_narrow_weights_stay_plain(
    lacking: str, layers: list[torch.nn.Linear], rows: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    avx512 = lacking == "oneDNN"
    processor = Processor("some", avx2=True, avx512=avx512, avx512_bf16=False, amx_bf16=False)
    monkeypatch.setattr(Processor, "detect", lambda: processor)
    monkeypatch.setattr(product_module, "_TAKES_BFLOAT16", lambda: not avx512)
    product = Product(layers, dtype=torch.bfloat16, device="cpu")
    assert product._multiply is None
    with torch.no_grad():
        expected = torch.cat([layer(rows) for layer in layers], dim=1)
        result = product(rows.to(torch.bfloat16))
    torch.testing.assert_close(result.float(), expected, atol=0.05, rtol=0)
