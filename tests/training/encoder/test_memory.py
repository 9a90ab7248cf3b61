"""How many tokens go through a model at once."""

import gc
import weakref

import pytest
import torch
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel, PreTrainedModel

from nearsay.training.encoder import memory
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import inference_tokens, tokens_that_fit, training_tokens

GB = 10**9


def bert(width: int = 64, layers: int = 3) -> BertModel:
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertModel(
        BertConfig(
            vocab_size=50,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=4 * width,
            **none,
        ),
        add_pooling_layer=False,
    )


def distilbert() -> DistilBertModel:
    none = {"dropout": 0.0, "attention_dropout": 0.0}
    return DistilBertModel(
        DistilBertConfig(vocab_size=50, dim=64, n_layers=2, n_heads=2, hidden_dim=256, **none)
    )


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU with 20 GB left, 6 GB of which torch keeps for what it will compute next."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (14 * GB, 24 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 8 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2 * GB)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)


def test_six_tenths_of_what_is_left_are_filled() -> None:
    # 0.6 x (10 GB - 2 GB) = 4.8 GB; a token of 1,200 numbers in 4 bytes takes 4,800 bytes.
    assert tokens_that_fit(10 * GB, numbers=1200, bytes_a_number=4, reserved=2 * GB) == 1_000_000


def test_where_nothing_fits_one_text_is_tried() -> None:
    assert tokens_that_fit(GB, numbers=1200, bytes_a_number=4, reserved=2 * GB) == 512


def test_a_training_on_a_gpu_takes_what_its_weights_and_their_updates_leave(gpu: None) -> None:
    model = bert()
    weights = sum(one.numel() for one in model.parameters())
    numbers = 2 * 3 * (5 * 64 + 256)
    wide = int(0.6 * (20 * GB - 12 * weights)) // (4 * numbers)
    assert training_tokens(model, "cuda", Precision.FLOAT32) == wide
    assert training_tokens(model, "cuda", Precision.AUTO) == pytest.approx(2 * wide, abs=1)
    model.requires_grad_(requires_grad=False)
    assert training_tokens(model, "cuda", Precision.FLOAT32) > wide


def test_the_same_training_has_the_same_budget_whatever_little_other_programs_hold_of_a_gpu(
    gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = bert()
    budgets = []
    for free in (17 * GB, 16.8 * GB, 12 * GB):  # and 6 GB that torch keeps
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 24 * GB))
        budgets.append(training_tokens(model, "cuda", Precision.FLOAT32))
    assert budgets[0] == budgets[1] > budgets[2]


def test_a_model_that_nobody_uses_any_more_leaves_its_memory_to_a_training(
    gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = bert()
    vars(used)["card"] = [used]  # as sentence-transformers' models hold themselves
    there, free = weakref.ref(used), memory._free
    alive: list[bool] = []
    monkeypatch.setattr(memory, "_free", lambda device: alive.append(there() is not None) or free(device))
    gc.disable()
    try:
        del used
        assert there() is not None
        training_tokens(bert(), "cuda", Precision.FLOAT32)
    finally:
        gc.enable()
    assert alive == [False]


def test_a_larger_model_takes_fewer_tokens_on_a_cpu_whatever_memory_is_left() -> None:
    """So that a run which is resumed has the groups that it had, and its losses to the last digit."""
    small, large = (training_tokens(bert(layers=n), "cpu", Precision.FLOAT32) for n in (2, 4))
    assert small == pytest.approx(2 * large, abs=1)


def test_an_encoding_on_a_gpu_is_limited_by_its_memory_or_by_what_fills_it(
    gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inference_tokens("cuda", bert()) == 32_768
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (0, 24 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 2 * GB + 100 * 10**6)
    # 60 MB for tokens of four times the widest layer's 256 numbers, of 4 bytes; or of 4,096 numbers.
    assert inference_tokens("cuda", bert()) == 60 * 10**6 // (4 * 256 * 4)
    assert inference_tokens("cuda", bert(), kept=1024) == 60 * 10**6 // (2 * 4 * 256 * 4)
    assert inference_tokens("cuda") == 60 * 10**6 // (4 * 4096 * 4)


@pytest.mark.parametrize("model", [bert(), bert(width=96, layers=2), distilbert()])
def test_the_numbers_of_a_token_are_those_that_torch_keeps_for_the_backward_pass(
    model: PreTrainedModel,
) -> None:
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = torch.randint(5, 50, (8, 16))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.train()(ids, attention_mask=torch.ones_like(ids))
    found = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / ids.numel()
    told = 0.6 * 6 * 2**30 / training_tokens(model, "cpu", Precision.FLOAT32)
    assert told == pytest.approx(found, rel=0.2)
