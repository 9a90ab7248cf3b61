import logging

import pytest
import torch
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.training.encoder import hardware as processor_module
from nearsay.training.encoder.hardware import (
    Precision,
    Processor,
    attention_of_any_shape,
    choose_device,
    computing_in,
    narrow_linear_weights,
    product_format,
    resolve_precision,
)

PLAIN = Processor(name="plain", avx2=True, avx512=True, avx512_bf16=False, amx_bf16=False)
WITH_AMX = Processor(name="amx", avx2=True, avx512=True, avx512_bf16=False, amx_bf16=True)
WITH_AVX512_BF16 = Processor(name="avx", avx2=True, avx512=True, avx512_bf16=True, amx_bf16=False)


@pytest.mark.parametrize("processor", [WITH_AMX, WITH_AVX512_BF16])
def test_auto_is_bfloat16_on_a_cpu_with_units_for_it(processor: Processor) -> None:
    assert resolve_precision(Precision.AUTO, "cpu", processor) is Precision.BFLOAT16


def test_auto_is_float32_on_a_cpu_without_units() -> None:
    assert resolve_precision(Precision.AUTO, "cpu", PLAIN) is Precision.FLOAT32


def test_auto_is_float32_on_apples_gpu() -> None:
    assert resolve_precision(Precision.AUTO, "mps", WITH_AMX) is Precision.FLOAT32


@pytest.mark.parametrize(("supported", "expected"), [(True, Precision.BFLOAT16), (False, Precision.FLOAT32)])
def test_auto_on_a_gpu_asks_the_gpu(
    supported: bool, expected: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: supported)
    assert resolve_precision(Precision.AUTO, "cuda:1", PLAIN) is expected


def test_float32_stays_float32_everywhere() -> None:
    assert resolve_precision(Precision.FLOAT32, "cpu", WITH_AMX) is Precision.FLOAT32


def test_float16_on_a_cpu_is_refused() -> None:
    with pytest.raises(BadInputError, match="float16 needs a GPU"):
        resolve_precision(Precision.FLOAT16, "cpu", WITH_AMX)


def test_slow_bfloat16_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="nearsay"):
        assert resolve_precision(Precision.BFLOAT16, "cpu", PLAIN) is Precision.BFLOAT16
    assert "no bfloat16 units" in caplog.text


def test_narrow_weights_are_the_linear_layers_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(3, 4), torch.nn.Linear(4, 2), torch.nn.LayerNorm(2))
    narrow_linear_weights(model, Precision.FLOAT32)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    narrow_linear_weights(model, Precision.BFLOAT16)
    dtypes = {name: parameter.dtype for name, parameter in model.named_parameters()}
    assert dtypes == {
        "0.weight": torch.float32,
        "1.weight": torch.bfloat16,
        "1.bias": torch.bfloat16,
        "2.weight": torch.float32,
        "2.bias": torch.float32,
    }


def test_products_have_the_precisions_format() -> None:
    formats = [product_format(each) for each in (Precision.FLOAT32, Precision.BFLOAT16, Precision.FLOAT16)]
    assert formats == [torch.float32, torch.bfloat16, torch.float16]


def test_products_are_computed_in_the_precision_and_without_gradients() -> None:
    ones = torch.ones(2, 2, requires_grad=True)
    with computing_in(Precision.BFLOAT16, "cpu"):
        product = ones @ ones
    assert product.dtype == torch.bfloat16
    assert not product.requires_grad
    with computing_in(Precision.FLOAT32, "cpu"):
        assert (ones @ ones).dtype == torch.float32


def test_the_processor_is_described_from_torchs_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch.cpu,
        "get_capabilities",
        lambda: {"cpu_name": "X", "avx2": True, "avx512_f": True, "avx512_bf16": True, "amx_bf16": False},
        raising=False,
    )
    found = Processor.detect()
    assert found == Processor("X", avx2=True, avx512=True, avx512_bf16=True, amx_bf16=False)
    assert found.multiplies_bfloat16
    assert found.instruction_sets == ("AVX2", "AVX512", "AVX512-BF16")


def test_an_older_torch_is_asked_by_its_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    found = Processor.detect()
    assert (found.avx2, found.avx512, found.avx512_bf16, found.amx_bf16) == (True, False, False, True)


def test_a_probe_that_torch_lacks_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported", raising=False)
    assert processor_module._probe("_is_amx_tile_supported") is False


@pytest.mark.parametrize("asked", ["cuda:99", "xla", "nonsense", "cuda:-1x", ""])
def test_a_device_that_is_not_there_is_named_with_those_that_are(asked: str) -> None:
    with pytest.raises(BadInputError, match=r"Available: cpu"):
        choose_device(asked)


def test_a_named_device_is_taken_as_it_is() -> None:
    assert choose_device("cpu") == "cpu"


def test_without_a_gpu_the_cpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == choose_device("auto") == "cpu"


def test_a_gpu_that_runs_nothing_is_passed_over_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("no kernel image is available\nmore")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch, "ones", broken)
    with caplog.at_level(logging.WARNING, logger="nearsay"):
        assert choose_device() == "cpu"
    assert "no kernel image is available" in caplog.text


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: out of memory\nmore",
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 79.1 GiB",
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ],
)
def test_a_gpu_whose_memory_another_program_holds_is_told_so_and_refused_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    def full(*_: object, **__: object) -> torch.Tensor:
        raise torch.AcceleratorError(said)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch, "ones", full)
    with caplog.at_level(logging.WARNING, logger="nearsay"):
        assert choose_device() == "cpu"
    assert caplog.messages == [
        Naming("memory is taken", said.splitlines()[0], "nvidia-smi", "cuda:1", "--device cpu")
    ]
    with pytest.raises(BadInputError) as raised:
        choose_device("cuda")
    assert str(raised.value) == Naming("memory is taken", said.splitlines()[0], "nvidia-smi", "--device cpu")


def test_attention_goes_without_cudnn_on_a_gpu_and_with_what_it_had_afterwards() -> None:
    cuda = torch.backends.cuda
    assert cuda.cudnn_sdp_enabled()
    with attention_of_any_shape("cpu"):
        assert cuda.cudnn_sdp_enabled()
    with attention_of_any_shape("cuda:1"):
        assert not cuda.cudnn_sdp_enabled()
        with attention_of_any_shape("cuda"):
            assert not cuda.cudnn_sdp_enabled()
        assert not cuda.cudnn_sdp_enabled()
    assert cuda.cudnn_sdp_enabled()
