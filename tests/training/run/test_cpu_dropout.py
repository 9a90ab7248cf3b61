"""Dropout that does not hold up a CPU."""

from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, BertConfig, BertModel, PreTrainedModel, T5EncoderModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nearsay.training.run.cpu_dropout import _PLAIN_ATTENTION, CpuDropout, cpu_dropout

MILLION = 1_000_000
NO_DROPOUT: Final = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# What each kind needs beside the sizes below; wide weights, so that a wrong attention shows.
PLAIN: Final[dict[str, dict[str, Any]]] = {
    "albert": {"embedding_size": 16, **NO_DROPOUT},
    "bert": NO_DROPOUT,
    "camembert": NO_DROPOUT,
    "distilbert": {
        "dim": 16,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 32,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
    "electra": {"embedding_size": 16, **NO_DROPOUT},
    "ernie": NO_DROPOUT,
    "modernbert": {
        "local_attention": 4,
        "global_attn_every_n_layers": 2,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "nomic_bert": {},
    "roberta": NO_DROPOUT,
    "xlm-roberta": NO_DROPOUT,
}
GROUPED: Final = {"num_key_value_heads": 2, "head_dim": 8}
OTHERS: Final[dict[str, dict[str, Any]]] = {
    "t5": {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "initializer_factor": 5.0},
    "qwen3": GROUPED,
    "gemma3_text": {**GROUPED, "query_pre_attn_scalar": 8, "sliding_window": 4},
    "mpnet": NO_DROPOUT,
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], **NO_DROPOUT},
}


def tiny_model(kind: str, settings: dict[str, Any], **more: float) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    if kind in {"t5", "distilbert"}:
        sizes = {}
    given = {"vocab_size": 50, "max_position_embeddings": 32, "initializer_range": 0.5, **sizes, **settings}
    config = AutoConfig.for_model(kind, **{**given, **more})
    model: PreTrainedModel = T5EncoderModel(config) if kind == "t5" else AutoModel.from_config(config)
    return model


def outcome_of(model: PreTrainedModel) -> tuple[Tensor, dict[str, Tensor]]:
    """The vectors of `padded_rows`, and the gradient of every weight."""
    model.zero_grad()
    rows = padded_rows()
    vectors = model(**rows).last_hidden_state[rows["attention_mask"].bool()]
    vectors[:, 0].square().sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return vectors.detach(), gradients


def tiny_bert(
    *, hidden: float = 0.0, attention: float = 0.0, implementation: str = "eager", heads: int = 4
) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=heads,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.5,
        hidden_dropout_prob=hidden,
        attention_probs_dropout_prob=attention,
        attn_implementation=implementation,
    )
    return BertModel(config)


def padded_rows() -> dict[str, Tensor]:
    ids = torch.arange(24).reshape(3, 8) + 3  # above the numbers that RoBERTa takes for padding
    return {"input_ids": ids, "attention_mask": (torch.arange(8) < torch.tensor([[8], [3], [5]])).long()}


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_share_that_is_dropped_is_the_rate_and_the_mean_stays(rate: float) -> None:
    dropped = CpuDropout()(torch.ones(1000, 1000), rate)
    bound = 5 * (rate * (1 - rate) / MILLION) ** 0.5 + 2**-16  # five standard deviations, and the rounding
    assert (dropped == 0).double().mean().item() == pytest.approx(rate, abs=bound)
    assert dropped.double().mean().item() == pytest.approx(1.0, abs=bound / (1 - rate))
    (kept,) = dropped[dropped != 0].unique().tolist()
    assert kept == pytest.approx(1 / (1 - rate), rel=2**-15 / (1 - rate))


def test_decisions_do_not_depend_on_their_neighbours() -> None:
    kept = (CpuDropout()(torch.ones(MILLION), 0.3) != 0).double() - 0.7
    for distance in (1, 2, 3, 4, 8):  # four decisions come from one random number
        correlation = (kept[:-distance] * kept[distance:]).mean().item() / 0.21
        assert abs(correlation) < 5 / MILLION**0.5


def test_the_gradient_is_the_same_mask() -> None:
    values = torch.randn(64, 7, generator=torch.Generator().manual_seed(1)).requires_grad_()
    result = CpuDropout()(values, 0.25)
    result.sum().backward()
    assert values.grad is not None
    scale = 2**16 / (2**16 - 2**14)
    assert values.grad.unique().tolist() == [0.0, pytest.approx(scale, rel=1e-7)]
    torch.testing.assert_close(result.detach(), values.detach() * values.grad, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_formats_keep_their_format_and_their_mean(dtype: torch.dtype) -> None:
    dropped = CpuDropout()(torch.full((1000, 1000), 3.0, dtype=dtype), 0.1)
    assert dropped.dtype is dtype
    (kept,) = dropped[dropped != 0].unique().tolist()
    scale = 2**16 / (2**16 - round(0.1 * 2**16))
    assert kept == torch.tensor(3 * scale, dtype=torch.float64).to(dtype).item()  # rounded once


def test_the_same_seed_gives_the_same_decisions_and_another_one_others() -> None:
    decisions, values = CpuDropout(), torch.ones(10_000)
    decisions.seed(3, 1, 0)
    first, following = decisions(values, 0.5), decisions(values, 0.5)
    decisions.seed(3, 1, 0)
    assert torch.equal(decisions(values, 0.5), first)
    assert not torch.equal(following, first)
    for other in ((4, 1, 0), (3, 2, 0), (3, 1, 1)):
        decisions.seed(*other)
        agreeing = (decisions(values, 0.5) == first).double().mean().item()
        assert agreeing == pytest.approx(0.5, abs=0.025)


def test_a_rate_of_nothing_changes_nothing_and_draws_nothing() -> None:
    decisions, values = CpuDropout(), torch.ones(100)
    assert decisions(values, 0.0) is values
    assert decisions(values, 1e-9) is values
    assert torch.equal(decisions(values, 0.5), CpuDropout()(values, 0.5))


def test_a_rate_of_one_drops_everything() -> None:
    assert not CpuDropout()(torch.ones(1000), 1.0).any()


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 0, 4), ()])
def test_any_shape_is_taken(shape: tuple[int, ...]) -> None:
    assert CpuDropout()(torch.ones(shape), 0.5).shape == shape


def test_in_evaluation_mode_nothing_is_dropped() -> None:
    model, values = nn.Sequential(nn.Dropout(0.5)), torch.ones(1000)
    with cpu_dropout(model):
        assert (model(values) == 0).any()
        model.eval()
        assert torch.equal(model(values), values)
        model.train()
        assert (model(values) == 0).any()


def test_a_model_that_comes_in_evaluation_mode_stays_in_it() -> None:
    model, values = nn.Sequential(nn.Dropout(0.5)).eval(), torch.ones(1000)
    with cpu_dropout(model):
        assert torch.equal(model(values), values)
    assert torch.equal(model(values), values)


def test_a_model_that_was_put_into_evaluation_mode_in_the_block_is_still_in_it_after() -> None:
    model = tiny_bert(hidden=0.5, attention=0.5)
    with cpu_dropout(model):
        model.eval()
    assert [name for name, module in model.named_modules() if module.training] == []


@pytest.mark.parametrize("raised", [None, RuntimeError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_after_the_block_the_model_and_the_library_are_as_before(
    raised: BaseException | None, implementation: str
) -> None:
    model = tiny_bert(hidden=0.1, attention=0.1, implementation=implementation)
    modules = {name: id(module) for name, module in model.named_modules()}
    attentions, masks = set(ALL_ATTENTION_FUNCTIONS), set(ALL_MASK_ATTENTION_FUNCTIONS)

    def use() -> None:
        with cpu_dropout(model):
            assert {name: id(module) for name, module in model.named_modules()} != modules
            assert model.config._attn_implementation != implementation
            if raised is not None:
                raise raised

    if raised is None:
        use()
    else:
        with pytest.raises(type(raised)):
            use()
    assert {name: id(module) for name, module in model.named_modules()} == modules
    assert model.config._attn_implementation == implementation
    assert (set(ALL_ATTENTION_FUNCTIONS), set(ALL_MASK_ATTENTION_FUNCTIONS)) == (attentions, masks)


@pytest.mark.parametrize(("heads", "dtype", "close"), [(4, torch.float32, 1e-6), (2, torch.float64, 1e-12)])
def test_without_dropout_attention_and_its_gradient_are_those_of_transformers(
    heads: int, dtype: torch.dtype, close: float
) -> None:
    model, rows = tiny_bert(heads=heads).to(dtype), padded_rows()
    real = rows["attention_mask"].bool()

    def outcome() -> tuple[Tensor, Tensor]:
        model.zero_grad()
        vectors = model(**rows).last_hidden_state[real]
        vectors[:, 0].square().sum().backward()  # all of a norm's squares add up to the same
        gradient = model.encoder.layer[0].attention.self.query.weight.grad
        assert gradient is not None
        return vectors.detach(), gradient.clone()

    theirs, their_gradient = outcome()
    with cpu_dropout(model):
        ours, our_gradient = outcome()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=close)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=0, atol=close)
    assert their_gradient.abs().max() > 1e-4
    unpadded = model(input_ids=rows["input_ids"]).last_hidden_state[real]
    assert (unpadded - theirs).abs().max() > 1e-2  # the mask mattered


def test_every_kind_whose_attention_is_replaced_is_compared_with_transformers() -> None:
    assert set(PLAIN) == _PLAIN_ATTENTION


@pytest.mark.parametrize("kind", sorted(PLAIN))
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_replaced_attention_and_its_gradients_are_those_of_transformers(
    kind: str, implementation: str
) -> None:
    model = tiny_model(kind, PLAIN[kind])
    model.set_attn_implementation(implementation)
    theirs, their_gradients = outcome_of(model)
    with cpu_dropout(model):
        assert model.config._attn_implementation != implementation
        ours, our_gradients = outcome_of(model)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-6)  # of vectors up to 3
    longest = max(float(gradient.abs().max()) for gradient in their_gradients.values())
    assert our_gradients.keys() == their_gradients.keys()
    for name, gradient in their_gradients.items():
        torch.testing.assert_close(our_gradients[name], gradient, rtol=0, atol=1e-5 * longest)


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_attention_of_another_kind_stays_that_of_transformers(kind: str) -> None:
    dropout = {"dropout_rate": 0.0} if kind == "t5" else {}
    model = tiny_model(kind, OTHERS[kind], **dropout)
    implementation = model.config._attn_implementation
    theirs, their_gradients = outcome_of(model)
    with cpu_dropout(model):
        assert model.config._attn_implementation == implementation
        ours, our_gradients = outcome_of(model)
    assert torch.equal(ours, theirs)
    assert our_gradients.keys() == their_gradients.keys()
    assert all(torch.equal(our_gradients[name], gradient) for name, gradient in their_gradients.items())


def test_dropout_beside_an_attention_of_another_kind_is_drawn_from_the_stream() -> None:
    model, rows = tiny_model("t5", OTHERS["t5"], dropout_rate=0.3), padded_rows()
    for module in model.modules():  # that of attention itself is torch's, and off here
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    outcomes = []
    with cpu_dropout(model) as decisions:
        for torch_seed, seed in ((1, 5), (2, 5), (2, 6)):
            torch.manual_seed(torch_seed)
            decisions.seed(seed)
            outcomes.append(model(**rows).last_hidden_state.detach())
    assert torch.equal(outcomes[0], outcomes[1])
    assert not torch.equal(outcomes[1], outcomes[2])


def test_in_evaluation_mode_attention_drops_nothing() -> None:
    model, rows = tiny_bert(hidden=0.3, attention=0.3).eval(), padded_rows()
    theirs = model(**rows).last_hidden_state.detach()
    with cpu_dropout(model):
        ours = model(**rows).last_hidden_state.detach()
    real = rows["attention_mask"].bool()
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-6)


def test_a_berts_dropout_and_that_of_its_attention_follow_the_seed_alone() -> None:
    for model in (tiny_bert(hidden=0.2), tiny_bert(attention=0.2)):
        outcomes = []
        with cpu_dropout(model) as decisions:
            for torch_seed, seed in ((1, 5), (2, 5), (2, 6)):
                torch.manual_seed(torch_seed)
                decisions.seed(seed)
                outcomes.append(model(**padded_rows()).last_hidden_state.detach())
        assert torch.equal(outcomes[0], outcomes[1])
        assert not torch.equal(outcomes[1], outcomes[2])


def test_a_block_inside_another_one_keeps_its_own_decisions() -> None:
    outer, inner, rows = tiny_bert(attention=0.2), tiny_bert(attention=0.2), padded_rows()
    with cpu_dropout(outer) as decisions:
        decisions.seed(1)
        alone = outer(**rows).last_hidden_state.detach()
        with cpu_dropout(inner) as others:
            others.seed(2)
            decisions.seed(1)
            assert torch.equal(outer(**rows).last_hidden_state, alone)
        decisions.seed(1)
        assert torch.equal(outer(**rows).last_hidden_state, alone)
