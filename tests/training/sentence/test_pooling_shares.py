from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling, StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from nearsay.training.sentence.pooling_shares import PoolingShares, pooling_shares

LINEAR = ["mean", "mean_sqrt_len_tokens", "weightedmean"]


def dense(inside: int, outside: int, activation: torch.nn.Module, **options: bool) -> Dense:
    torch.manual_seed(inside + outside)
    return Dense(inside, outside, activation_function=activation, **options)


def layer_norm(width: int) -> LayerNorm:
    torch.manual_seed(width)
    module = LayerNorm(width)
    torch.nn.init.normal_(module.norm.weight)
    torch.nn.init.normal_(module.norm.bias)
    return module


@pytest.fixture
def of(tiny_folder: Path):
    """Gives the shares and the modules that follow a tiny transformer."""

    def build(*modules: torch.nn.Module) -> tuple[PoolingShares | None, Sequence[torch.nn.Module]]:
        model = SentenceTransformer(modules=[Transformer(str(tiny_folder)), *modules], device="cpu").eval()
        return pooling_shares(model), list(model)[1:]

    return build


def vector_of(modules: Sequence[torch.nn.Module], tokens: np.ndarray, prompt_length: int = 0) -> np.ndarray:
    """The oracle: sentence-transformers' own modules."""
    features = {
        "token_embeddings": torch.from_numpy(tokens).float()[None],
        "attention_mask": torch.ones(1, len(tokens), dtype=torch.int64),
    }
    if prompt_length:
        features["prompt_length"] = prompt_length
    with torch.no_grad():
        for module in modules:
            features = module(features)
    return features["sentence_embedding"][0].numpy()


def tokens(count: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 32))


def test_a_mean_gives_each_token_its_vector_over_their_number(of) -> None:
    shares, _ = of(Pooling(32, "mean"))
    two = np.zeros((2, 32))
    two[0, 0], two[1, 0], two[1, 1] = 4, 2, 6
    found = shares.shares(two)
    assert found.tokens[:, :3].tolist() == [[2, 0, 0], [1, 3, 0]]
    assert found.constant.tolist() == [0] * 32


def test_a_mean_by_place_weighs_later_tokens_more(of) -> None:
    shares, _ = of(Pooling(32, "weightedmean"))
    found = shares.shares(np.ones((3, 32)))
    assert found.tokens[:, 0].tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_a_maximum_belongs_to_the_token_that_has_it(of) -> None:
    shares, _ = of(Pooling(32, "max"))
    two = np.full((2, 32), -9.0)
    two[0, 0], two[1, 0], two[1, 1] = 4, 2, 6
    assert shares.shares(two).tokens[:, :3].tolist() == [[4, 0, -9], [0, 6, 0]]
    assert not shares.exact


@pytest.mark.parametrize("mode", [*LINEAR, "max", ("mean", "max"), ("mean", "weightedmean")])
@pytest.mark.parametrize("prompt_length", [0, 3])
def test_parts_sum_to_the_pooled_vector(mode, prompt_length, of) -> None:
    shares, modules = of(Pooling(32, mode, include_prompt=False))
    vector = vector_of(modules, tokens(), prompt_length)
    np.testing.assert_allclose(shares.shares(tokens(), prompt_length=prompt_length).total, vector, atol=1e-5)


def test_a_prompt_that_is_not_pooled_has_no_part(of) -> None:
    left_out, _ = of(Pooling(32, "mean", include_prompt=False))
    pooled, _ = of(Pooling(32, "mean"))
    assert not left_out.shares(tokens(), prompt_length=3).tokens[:3].any()
    assert pooled.shares(tokens(), prompt_length=3).tokens[:3].all()


@pytest.mark.parametrize("mode", LINEAR)
@pytest.mark.parametrize(
    "tail",
    [
        [Normalize()],
        [dense(32, 8, torch.nn.Identity()), Normalize()],
        [Normalize(), dense(32, 8, torch.nn.Identity(), bias=False)],
        [dense(32, 32, torch.nn.Identity(), use_residual=True)],
        [dense(32, 8, torch.nn.Identity(), use_residual=True), layer_norm(8), Dropout(0.5), Normalize()],
    ],
    ids=["normalise", "dense", "normalise first", "residual", "everything"],
)
def test_linear_steps_keep_the_parts_exact(mode: str, tail, of) -> None:
    shares, modules = of(Pooling(32, mode), *tail)
    assert shares.exact
    np.testing.assert_allclose(shares.shares(tokens()).total, vector_of(modules, tokens()), atol=1e-5)


@pytest.mark.parametrize(
    "activation", [torch.nn.Tanh(), torch.nn.GELU(), torch.nn.ReLU(), torch.nn.Sigmoid(), torch.nn.PReLU()]
)
def test_an_activation_keeps_the_sum_and_is_marked_inexact(activation: torch.nn.Module, of) -> None:
    shares, modules = of(Pooling(32, "mean"), dense(32, 8, activation, use_residual=True), Normalize())
    assert not shares.exact
    np.testing.assert_allclose(shares.shares(tokens()).total, vector_of(modules, tokens()), atol=1e-5)


def test_an_activation_of_nothing_at_all_is_no_tokens(of) -> None:
    layer = dense(32, 8, torch.nn.Sigmoid(), bias=False)
    shares, _ = of(Pooling(32, "mean"), layer)
    found = shares.shares(np.zeros((2, 32)))
    assert not found.tokens.any()
    assert found.constant.tolist() == [0.5] * 8


@pytest.mark.parametrize("mode", ["cls", "lasttoken", ("mean", "cls")])
def test_a_vector_of_one_token_has_no_parts(mode, of) -> None:
    assert of(Pooling(32, mode))[0] is None


def test_a_step_that_is_not_known_gives_no_parts(of) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return features | {"sentence_embedding": features["sentence_embedding"] * 2}

    assert of(Pooling(32, "mean"), Doubled())[0] is None
    assert of(Pooling(32, "mean"), Normalize("token_embeddings"))[0] is None


def test_a_vector_that_is_cut_short_is_cut_in_its_parts(tiny_folder: Path) -> None:
    model = SentenceTransformer(
        modules=[Transformer(str(tiny_folder)), Pooling(32, "mean")], device="cpu", truncate_dim=5
    )
    shares = pooling_shares(model)
    assert shares is not None
    assert shares.shares(tokens()).tokens.shape == (7, 5)


def test_a_static_table_is_a_mean() -> None:
    words = WordLevel({"a": 0, "b": 1}, unk_token="a")
    table = StaticEmbedding(Tokenizer(words), embedding_dim=4)
    shares = pooling_shares(SentenceTransformer(modules=[table, Normalize()], device="cpu"))
    assert shares is not None
    assert shares.exact
    parts = shares.shares(np.array([[3.0, 0, 0, 0], [0, 4.0, 0, 0]])).tokens
    np.testing.assert_allclose(parts, [[0.6, 0, 0, 0], [0, 0.8, 0, 0]])
