"""The packed way against the model's own modules."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (
    LayerNorm,
    Pooling,
    StaticEmbedding,
    WeightedLayerPooling,
)
from transformers import BertConfig, BertModel

from nearsay.training.encoder import bert as bert_module
from nearsay.training.encoder import packed_encoder as packed_encoder_module
from nearsay.training.encoder import workers as workers_module
from nearsay.training.encoder.hardware import Precision, Processor
from nearsay.training.encoder.packed_encoder import PackedEncoder
from nearsay.training.encoder.packed_window import PackedBatch, PackedWindow
from nearsay.training.sentence.forward import ForwardPass, padded

MODES = ["mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("cls", "mean")]
LENGTHS = [1, 16, 2, 9, 9, 3, 16, 5, 9, 1, 12]


def texts_of(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    numbers = np.random.default_rng(seed)
    return [numbers.integers(5, 60, length).tolist() for length in lengths]


@pytest.fixture
def make_model(make_folder: Callable[..., Path]) -> Callable[..., SentenceTransformer]:
    """Makes tiny encoders; `further`: the modules in the place of those after the pooling."""

    def make(
        pooling: str | tuple[str, ...] = "mean",
        *,
        include_prompt: bool = True,
        further: Sequence[torch.nn.Module] = (Normalize(),),
        **options: object,
    ) -> SentenceTransformer:
        model = SentenceTransformer(str(make_folder(layers=2)), device="cpu")
        config = BertConfig(
            **{
                "vocab_size": 67,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 48,
                "max_position_embeddings": 16,
                "initializer_range": 0.4,
                **options,
            }
        )
        torch.manual_seed(1)
        bert = BertModel(config)
        for name, parameter in bert.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                torch.nn.init.normal_(parameter, mean=0.5, std=0.5)  # transformers would leave zeros and ones
        model[0].model = bert
        return SentenceTransformer(
            modules=[model[0], Pooling(32, pooling, include_prompt=include_prompt), *further], device="cpu"
        ).eval()

    return make


def by_modules(
    model: SentenceTransformer, texts: Sequence[list[int]], prompt_length: int = 0
) -> NDArray[np.float32]:
    ids, mask = padded(texts, pad_id=0)
    features: dict[str, torch.Tensor | int] = {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(mask),
    }
    if prompt_length:
        features["prompt_length"] = prompt_length
    with torch.inference_mode():
        vectors = model(features)["sentence_embedding"][:, : model.truncate_dim]
    return np.asarray(vectors.numpy())


def packed(
    model: SentenceTransformer,
    texts: Sequence[list[int]],
    prompt_length: int = 0,
    dtype: torch.dtype = torch.float32,
) -> NDArray[np.float32]:
    assert PackedEncoder.runs(model)
    return PackedEncoder(model, device="cpu", dtype=dtype).start(texts, prompt_length)()


@pytest.mark.parametrize("pooling", MODES)
@pytest.mark.parametrize("further", [[], [Normalize()]])
def test_vectors_are_the_modules(
    pooling: str, further: list[torch.nn.Module], make_model: Callable[..., SentenceTransformer]
) -> None:
    model = make_model(pooling, further=further)
    texts = texts_of(LENGTHS)
    vectors = packed(model, texts)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, by_modules(model, texts), atol=1e-5)


def test_vectors_are_the_modules_in_blocks(
    make_model: Callable[..., SentenceTransformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bert_module, "takes_blocks", lambda _device, _dtype: True)
    laid: list[PackedBatch] = []
    batches = PackedWindow.batches

    def recorded(window: PackedWindow, budget: int, *, by_blocks: bool) -> Iterator[PackedBatch]:
        for batch in batches(window, budget, by_blocks=by_blocks):
            laid.append(batch)
            yield batch

    monkeypatch.setattr(PackedWindow, "batches", recorded)
    model = make_model()
    texts = texts_of(LENGTHS * 12)
    np.testing.assert_allclose(packed(model, texts), by_modules(model, texts), atol=1e-5)
    assert sum(batch.texts for batch in laid if batch.blocks is not None) == len(texts)
    tokens = PackedEncoder(model, device="cpu", dtype=torch.float32).token_vectors(texts)
    expected = PackedEncoder(model, device="cpu", dtype=torch.float32).token_vectors(texts[:1])
    assert [len(rows) for rows in tokens] == [len(text) for text in texts]
    np.testing.assert_allclose(tokens[0], expected[0], atol=1e-5)


def test_many_tokens_of_any_number_give_the_same(make_model: Callable[..., SentenceTransformer]) -> None:
    model = make_model()
    texts = texts_of([16] * 40 + [5])
    np.testing.assert_allclose(packed(model, texts), by_modules(model, texts), atol=1e-5)


@pytest.mark.parametrize("pooling", MODES)
@pytest.mark.parametrize("include_prompt", [True, False])
def test_a_prompt_is_pooled_or_left_out_as_the_module_does(
    pooling: str, include_prompt: bool, make_model: Callable[..., SentenceTransformer]
) -> None:
    model = make_model(pooling, include_prompt=include_prompt)
    texts = texts_of([4, 16, 9, 9, 5])
    np.testing.assert_allclose(packed(model, texts, 3), by_modules(model, texts, 3), atol=1e-5)
    if pooling != "lasttoken":
        changed = np.abs(packed(model, texts, 3) - packed(model, texts)).max()
        assert (changed > 1e-3) is not include_prompt


def test_a_text_that_is_all_prompt_gets_what_the_module_gives(
    make_model: Callable[..., SentenceTransformer],
) -> None:
    model = make_model(include_prompt=False)
    texts = texts_of([3, 3])
    np.testing.assert_allclose(packed(model, texts, 3), by_modules(model, texts, 3), atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"num_hidden_layers": 1, "num_attention_heads": 1},
        {"hidden_act": "relu"},
        {"hidden_act": "gelu_new"},
        {"hidden_act": "gelu_python"},
        {"hidden_act": "gelu_pytorch_tanh"},
        {"layer_norm_eps": 0.1, "type_vocab_size": 1},
        {"num_attention_heads": 8, "intermediate_size": 7},
    ],
)
def test_other_shapes_of_bert_are_computed_too(
    options: dict[str, object], make_model: Callable[..., SentenceTransformer]
) -> None:
    model = make_model(**options)
    texts = texts_of(LENGTHS, seed=2)
    np.testing.assert_allclose(packed(model, texts), by_modules(model, texts), atol=1e-5)


def test_layers_after_the_pooling_and_a_cut_dimension_are_kept(
    make_model: Callable[..., SentenceTransformer],
) -> None:
    torch.manual_seed(3)
    model = make_model(further=[Dense(32, 24), LayerNorm(24), Normalize()])
    model.truncate_dim = 10
    texts = texts_of(LENGTHS)
    vectors = packed(model, texts)
    assert vectors.shape == (len(texts), 10)
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, by_modules(model, texts), atol=1e-5)


@settings(max_examples=15)
@given(lengths=st.lists(st.integers(1, 16), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_any_lengths_in_any_order_are_computed(
    lengths: list[int], seed: int, tiny_model: SentenceTransformer
) -> None:
    texts = texts_of(lengths, seed)
    np.testing.assert_allclose(packed(tiny_model, texts), by_modules(tiny_model, texts), atol=1e-5)


@pytest.fixture(scope="module")
def tiny_model(tiny_folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(tiny_folder), device="cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_vector_does_not_depend_on_the_texts_beside_it(
    dtype: torch.dtype, make_model: Callable[..., SentenceTransformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = PackedEncoder(make_model(), device="cpu", dtype=dtype)
    texts = texts_of([*LENGTHS, *range(2, 17)])
    together = encoder.start(texts, 0)()
    some = [place for place, text in enumerate(texts) if len(text) > 1]
    alone = np.concatenate([encoder.start([texts[place]], 0)() for place in some])
    # Not tried on AMX tiles, whose kernels may sum in another order for another number of rows.
    narrow_tiles = dtype == torch.bfloat16 and Processor.detect().amx_bf16
    tolerance = 5e-3 if narrow_tiles else 0.0
    np.testing.assert_allclose(alone, together[some], atol=tolerance, rtol=0)
    monkeypatch.setattr(packed_encoder_module, "_CPU_BATCH_TOKENS", (17, 17))
    np.testing.assert_allclose(encoder.start(texts, 0)()[some], together[some], atol=tolerance, rtol=0)


def test_many_batches_side_by_side_give_the_same(
    make_model: Callable[..., SentenceTransformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    texts = texts_of([*LENGTHS, *LENGTHS, *LENGTHS])
    expected = packed(model, texts)
    encoder = PackedEncoder(model, device="cpu", dtype=torch.float32)
    assert encoder._workers is not None
    monkeypatch.setattr(workers_module, "_allowed", lambda: 3)
    monkeypatch.setattr(packed_encoder_module, "_CPU_BATCH_TOKENS", (1, 20))
    np.testing.assert_array_equal(encoder.start(texts, 0)(), expected)
    assert encoder._workers._pool is not None


@pytest.mark.parametrize(("tokens", "alone"), [(2, True), (10, True), (11, False)])
def test_a_query_is_encoded_on_one_core_and_a_long_text_on_all(
    make_model: Callable[..., SentenceTransformer],
    monkeypatch: pytest.MonkeyPatch,
    tokens: int,
    *,
    alone: bool,
) -> None:
    encoder = PackedEncoder(make_model(), device="cpu", dtype=torch.float32)
    used: list[int] = []
    bert = encoder._bert

    def watched(batch: PackedBatch) -> torch.Tensor:
        used.append(torch.get_num_threads())
        return bert(batch)

    monkeypatch.setattr(encoder, "_bert", watched)
    monkeypatch.setattr(packed_encoder_module, "_ONE_CORE_TOKENS", 10)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        encoder.start(texts_of([tokens]), 0)()
    finally:
        torch.set_num_threads(before)
    assert used == [1 if alone else 2]


def test_narrow_products_stay_near(make_model: Callable[..., SentenceTransformer]) -> None:
    model = make_model()
    texts = texts_of(LENGTHS)
    narrow, exact = packed(model, texts, dtype=torch.bfloat16), packed(model, texts)
    assert narrow.dtype == np.float32
    assert not np.array_equal(narrow, exact)
    assert (narrow * exact).sum(axis=1).min() > 0.999


def test_models_that_it_does_not_know_are_left_to_their_modules(
    make_model: Callable[..., SentenceTransformer],
) -> None:
    assert PackedEncoder.runs(make_model())
    replaced = make_model()
    replaced[0].auto_model.encoder.layer[0].output.dense = torch.nn.Sequential(torch.nn.Linear(48, 32))
    without_bias = make_model()
    without_bias[0].auto_model.encoder.layer[1].output.dense.bias = None
    between = make_model()
    layers = WeightedLayerPooling(32, num_hidden_layers=2)
    on_tokens = Dense(32, 32, module_input_name="token_embeddings")
    for model in [
        replaced,
        without_bias,
        make_model(is_decoder=True),
        SentenceTransformer(modules=[between[0], layers, between[1]], device="cpu"),
        SentenceTransformer(modules=[between[0], between[1], on_tokens], device="cpu"),
        SentenceTransformer(modules=[between[0]], device="cpu"),
        SentenceTransformer(modules=[StaticEmbedding(between.tokenizer, embedding_dim=8)], device="cpu"),
    ]:
        assert not PackedEncoder.runs(model)


def test_the_forward_pass_takes_the_packed_way_only_where_it_runs(
    make_model: Callable[..., SentenceTransformer],
) -> None:
    texts = texts_of(LENGTHS)
    known, unknown = make_model(), make_model(is_decoder=True)
    quick = ForwardPass(known, device="cpu", precision=Precision.FLOAT32)
    slow = ForwardPass(unknown, device="cpu", precision=Precision.FLOAT32)
    assert quick._packed is not None
    assert slow._packed is None
    np.testing.assert_allclose(quick.run(texts), by_modules(known, texts), atol=1e-5)
    with_an_empty_one = [*texts, []]
    np.testing.assert_allclose(quick.run(with_an_empty_one), by_modules(known, with_an_empty_one), atol=1e-5)


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16])
def test_a_text_without_tokens_changes_no_other_texts_vector(
    precision: Precision, make_model: Callable[..., SentenceTransformer]
) -> None:
    model = make_model("cls")
    encoder = ForwardPass(model, device="cpu", precision=precision)
    texts = texts_of([5, 9, 3])
    alone = encoder.run(texts)
    together = encoder.run([[], texts[0], [], texts[1], texts[2]])
    np.testing.assert_array_equal(together[[1, 3, 4]], alone)
    np.testing.assert_allclose(together[[0, 2]], encoder.run([[], []]), atol=1e-6)
    assert np.abs(together[0] - alone).max(axis=1).min() > 0.01


def test_a_gpus_vectors_are_waited_for_on_their_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins: the copy's end is noted on the stream of the vectors' GPU, not of the current one."""
    noted: list[str] = []

    class OnGpu:
        is_cuda, shape, device = True, (2, 1), "cuda:1"

    class Pinned:
        def copy_(self, vectors: OnGpu, *, non_blocking: bool) -> torch.Tensor:
            noted.append(f"copied from {vectors.device}, waiting: {not non_blocking}")
            return torch.tensor([[1.0], [2.0]])

    class Event:
        def record(self, stream: str) -> None:
            noted.append(f"recorded on {stream}")

        def synchronize(self) -> None:
            noted.append("waited")

    monkeypatch.setattr(torch, "empty", lambda *_shape, **_options: Pinned())
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    finish = packed_encoder_module._fetched(OnGpu(), np.array([1, 0]))  # type: ignore[arg-type]  # a stand-in
    assert noted == ["copied from cuda:1, waiting: False", "recorded on the stream of cuda:1"]
    assert finish().tolist() == [[2.0], [1.0]]
    assert noted[-1] == "waited"
