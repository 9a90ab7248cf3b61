"""The light runtime against the one by torch, which is transformers' own or equal to it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.packed_encoder import PackedEncoder
from nearsay.training.encoder.plain_encoder import read_plain_encoder
from nearsay.training.encoder.weights import weight_hashes
from nearsay.training.sentence import light_encoder
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.compression.static_encoder import make_static_encoder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.light_encoder import LightEncoder, open_encoder, reason_for_torch
from nearsay.training.sentence.light_model import LightModel
from nearsay.training.sentence.loading import load_model
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextKind

TEXTS = [
    "the cat sat",
    "the dog sat . the cat sat . the mat",
    "a",
    "query: zebra é 日本",
    "the " * 40,
    "the cat sat",
]
SIZES = {
    "vocab_size": 67,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.4,
}
DISTILBERT = {
    "vocab_size": 67,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.4,
}


def architecture(name: str) -> PreTrainedModel:
    torch.manual_seed(3)
    made: dict[str, Callable[[], PreTrainedModel]] = {
        "bert": lambda: BertModel(BertConfig(**SIZES)),
        "bert-relu": lambda: BertModel(BertConfig(**SIZES, hidden_act="relu", layer_norm_eps=1e-3)),
        "bert-gelu-new": lambda: BertModel(BertConfig(**SIZES, hidden_act="gelu_new")),
        "camembert": lambda: CamembertModel(CamembertConfig(**SIZES)),
        "distilbert": lambda: DistilBertModel(DistilBertConfig(**DISTILBERT)),
        "electra": lambda: ElectraModel(ElectraConfig(**SIZES, embedding_size=16)),
        "electra-as-wide": lambda: ElectraModel(ElectraConfig(**SIZES, embedding_size=32)),
        "mpnet": lambda: MPNetModel(MPNetConfig(**SIZES)),
        "roberta": lambda: RobertaModel(RobertaConfig(**SIZES)),
        "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**SIZES)),
    }
    model = made[name]()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias") or "norm" in parameter_name.lower():
            torch.nn.init.normal_(parameter, mean=0.5, std=0.5)  # transformers would leave zeros and ones
    return model


@pytest.fixture
def folder_of(make_folder: Callable[..., Path]) -> Callable[..., Path]:
    """A tiny encoder's folder with another architecture's weights and configuration in it."""

    def make(name: str, **options: object) -> Path:
        folder = make_folder(name, **options)
        architecture(name).save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def passages_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first passage that is to be stored."""
    monkeypatch.setattr(light_encoder, "_MOST_OF_PASSAGES", 0)


def both(folder: Path) -> tuple[LightEncoder, Encoder]:
    light = open_encoder(folder, device="cpu", precision="float32")
    assert isinstance(light, LightEncoder)
    return light, by_modules(folder)


def by_modules(folder: Path, precision: Precision = Precision.FLOAT32) -> Encoder:
    """The encoder as sentence-transformers loads it, of which only a BERT runs packed."""
    source = find_encoder(folder)
    weights = weight_hashes(source.folder)
    model = load_model(source.folder, "cpu")
    return Encoder(model, source, device="cpu", precision=precision, weights=weights)


def assert_same(light: LightEncoder, full: Encoder) -> None:
    assert (light.fingerprint, light.weights_sha256) == (full.fingerprint, full.weights_sha256)
    assert (light.name, light.source, light.lineage) == (full.name, full.source, full.lineage)
    assert (light.dimension, light.max_tokens, light.normalised) == (
        full.dimension,
        full.max_tokens,
        full.normalised,
    )
    assert [offsets.tolist() for offsets in light.token_offsets(TEXTS)] == [
        offsets.tolist() for offsets in full.token_offsets(TEXTS)
    ]
    assert light.pieces(TEXTS[3], kind=TextKind.QUERY) == full.pieces(TEXTS[3], kind=TextKind.QUERY)
    mine, theirs = (
        light.encode_window(TEXTS, kind=TextKind.QUERY),
        full.encode_window(TEXTS, kind=TextKind.QUERY),
    )
    assert mine.truncated == theirs.truncated
    assert mine.vectors.dtype == np.float32
    assert np.abs(mine.vectors - theirs.vectors).max() < 1e-5
    assert light._loaded is None  # it was this runtime that answered


@pytest.mark.parametrize(
    "name",
    [
        "bert",
        "bert-relu",
        "bert-gelu-new",
        "camembert",
        "distilbert",
        "electra",
        "electra-as-wide",
        "mpnet",
        "roberta",
        "xlm-roberta",
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_architecture_gives_the_vectors_of_the_runtime_by_torch(name: str, folder_of) -> None:
    assert_same(*both(folder_of(name, max_seq_length=60)))


def test_mpnet_buckets_far_distances_as_transformers_does(folder_of, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = MPNetModel(MPNetConfig(**{**SIZES, "max_position_embeddings": 400})).eval()
    folder = folder_of("mpnet")
    model.save_pretrained(folder)
    ids = np.random.default_rng(0).integers(5, 60, 390).tolist()
    with torch.no_grad():
        expected = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    plain = read_plain_encoder(EncoderFolder(folder))
    (states,) = LightModel(plain).token_states([ids])
    assert np.abs(states - expected).max() < 1e-4  # of values of several units
    (states,) = PackedEncoder(plain, device="cpu", dtype=torch.float32).token_vectors([ids])
    assert np.abs(states - expected).max() < 1e-4


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "mean_sqrt_len_tokens", ["cls", "mean"]])
def test_every_pooling_gives_the_vectors_of_the_runtime_by_torch(pooling, make_folder) -> None:
    assert_same(*both(make_folder(pooling=pooling)))


def test_prompts_that_are_pooled_and_that_are_not(make_folder) -> None:
    prompts = {"query": "query: ", "document": "passage: "}
    assert_same(*both(make_folder("with", prompts=prompts)))
    assert_same(*both(make_folder("without", prompts=prompts, include_prompt=False)))
    # The first token that is pooled, the one after the prompt.
    assert_same(*both(make_folder("first", prompts=prompts, include_prompt=False, pooling="cls")))


def test_the_older_form_of_a_pooling_is_understood(make_folder) -> None:
    folder = make_folder()
    settings = {
        "word_embedding_dimension": 32,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert_same(*both(folder))


@pytest.mark.parametrize("activation", [torch.nn.Tanh(), torch.nn.Identity()])
def test_a_linear_layer_after_the_pooling_is_run(
    activation: torch.nn.Module, make_folder, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    model = SentenceTransformer(str(make_folder()), device="cpu")
    wider = [*list(model)[:2], Dense(32, 12, activation_function=activation), Normalize()]
    SentenceTransformer(modules=wider, device="cpu").save(str(tmp_path / "dense"))
    assert_same(*both(tmp_path / "dense"))


def test_a_linear_layer_that_does_not_fit_is_left_to_torch(make_folder, tmp_path: Path) -> None:
    model = SentenceTransformer(str(make_folder()), device="cpu")
    SentenceTransformer(modules=[*list(model)[:2], Dense(48, 12)], device="cpu").save(str(tmp_path / "wide"))
    assert reason_for_torch(EncoderFolder(tmp_path / "wide"), device="cpu", precision="auto") is not None


def test_a_folder_as_sentence_transformers_saves_it_today_is_run(make_folder, tmp_path: Path) -> None:
    SentenceTransformer(str(make_folder()), device="cpu").save(str(tmp_path / "saved"))
    assert_same(*both(tmp_path / "saved"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_read(dtype: torch.dtype, make_folder) -> None:
    folder = make_folder()
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert_same(*both(folder))


def test_vectors_that_are_cut_short_are_cut_here_too(make_folder) -> None:
    folder = make_folder()
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"truncate_dim": 8}))
    light, full = both(folder)
    assert_same(light, full)
    assert not light.normalised


@pytest.mark.long
def test_the_bundled_encoder_gives_the_vectors_of_the_runtime_by_torch(bundled: Encoder) -> None:
    light = open_encoder(BUNDLED_NAME, device="cpu")
    assert isinstance(light, LightEncoder)
    assert_same(light, bundled)


@pytest.fixture
def static_folder(make_folder, tmp_path: Path) -> Path:
    return make_static_encoder(
        make_folder(), tmp_path / "static", dimension=8, device="cpu", precision=Precision.FLOAT32
    ).folder


def test_a_static_encoder_needs_torch_for_nothing(static_folder: Path) -> None:
    light, full = both(static_folder)
    assert_same(light, full)
    texts = [*TEXTS, "", "the cat " * 400]
    window, wanted = next(light.stream([texts])), full.encode_window(texts)
    assert np.abs(window.vectors - wanted.vectors).max() < 1e-6
    assert window.truncated == wanted.truncated == 1
    assert np.array_equal(light.encode(texts), window.vectors)
    mine, theirs = light.contributions(texts), full.contributions(texts)
    assert mine is not None
    assert theirs is not None
    for own, other in zip(mine, theirs, strict=True):
        assert np.abs(own.vectors - other.vectors).max() < 1e-6
        assert np.array_equal(own.spans, other.spans)
        assert (own.exact, own.whole) == (other.exact, other.whole)
    assert light._loaded is None


def test_a_table_of_model2vec_is_looked_up(static_folder: Path) -> None:
    file = static_folder / "model.safetensors"
    save_file({"embeddings": load_file(file)["embedding.weight"].half()}, file)
    assert_same(*both(static_folder))


@pytest.mark.parametrize("beside", ["mapping", "weights"])
def test_a_table_of_model2vec_that_is_looked_up_otherwise_is_left_to_torch(
    beside: str, static_folder: Path
) -> None:
    file = static_folder / "model.safetensors"
    table = load_file(file)["embedding.weight"]
    more = {
        "mapping": torch.arange(len(table)).flip(0),
        "weights": torch.arange(len(table), dtype=torch.float64),
    }
    save_file({"embeddings": table, beside: more[beside]}, file)
    with pytest.raises(UnsupportedEncoderError, match=beside):
        LightEncoder(find_encoder(static_folder))
    assert isinstance(open_encoder(static_folder, device="cpu"), Encoder)


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {}),
        ("bert-relu", {}),
        ("bert-gelu-new", {"pooling": "max"}),
        ("bert", {"pooling": "cls", "prompts": {"query": "query: "}}),
        ("bert", {"pooling": "mean_sqrt_len_tokens"}),
        ("bert", {"pooling": ["mean", "cls"], "modules": ["models.Transformer", "models.Pooling"]}),
        ("bert", {"prompts": {"query": "query: ", "passage": "the "}, "include_prompt": False}),
        ("bert", {"prompts": {"query": "query: "}, "include_prompt": False, "pooling": "cls"}),
    ],
)
def test_the_packed_runtime_reads_the_files_as_sentence_transformers_does(
    name: str, options: dict[str, object], precision: Precision, folder_of
) -> None:
    folder = folder_of(name, **options)
    read = Encoder.load(folder, device="cpu", precision=precision)
    given = by_modules(folder, precision)
    assert not hasattr(read._forward, "_model")  # no module of sentence-transformers' runs
    assert (read.fingerprint, read.max_tokens, read.normalised) == (
        given.fingerprint,
        given.max_tokens,
        given.normalised,
    )
    for kind in TextKind:
        mine, theirs = read.encode_window(TEXTS, kind=kind), given.encode_window(TEXTS, kind=kind)
        assert np.abs(mine.vectors - theirs.vectors).max() < 1e-6
        assert mine.truncated == theirs.truncated
        own, other = read.contributions(TEXTS, kind=kind), given.contributions(TEXTS, kind=kind)
        assert (own is None) == (other is None)
        for first, second in zip(own or [], other or [], strict=True):
            assert np.abs(first.vectors - second.vectors).max() < 1e-6


@pytest.mark.parametrize(
    "name", ["camembert", "distilbert", "electra", "electra-as-wide", "mpnet", "roberta", "xlm-roberta"]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_family_runs_packed_as_by_its_own_modules(name: str, folder_of) -> None:
    folder = folder_of(name, max_seq_length=60)
    texts = [*TEXTS, "a [PAD] in a text", *(" ".join(["the cat"] * n) for n in range(1, 30))]
    expected = by_modules(folder).encode(texts)
    read = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    assert not hasattr(read._forward, "_model")  # no module of sentence-transformers' runs
    assert np.abs(read.encode(texts) - expected).max() < 1e-5
    narrow = Encoder.load(folder, device="cpu", precision=Precision.BFLOAT16).encode(texts)
    assert (narrow * expected).sum(axis=1).min() > 0.999


def test_a_layer_after_the_pooling_is_read_as_sentence_transformers_does(make_folder, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SentenceTransformer(str(make_folder()), device="cpu")
    model = SentenceTransformer(modules=[*list(model)[:2], Dense(32, 16), Normalize()], device="cpu")
    model.save_pretrained(str(tmp_path / "dense"))
    read = Encoder.load(tmp_path / "dense", device="cpu", precision=Precision.FLOAT32)
    given = by_modules(tmp_path / "dense")
    assert not hasattr(read._forward, "_model")
    assert np.abs(read.encode(TEXTS) - given.encode(TEXTS)).max() < 1e-6
    light, _ = both(tmp_path / "dense")
    for other in (read, light):
        mine, theirs = other.contributions(TEXTS), given.contributions(TEXTS)
        assert mine is not None
        assert theirs is not None
        for first, second in zip(mine, theirs, strict=True):
            assert np.abs(first.vectors - second.vectors).max() < 1e-5
            assert first.exact == second.exact
    assert light._loaded is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["bundled", "mpnet"])
def test_many_passages_import_torch_but_neither_transformers_nor_sentence_transformers(
    name: str, folder_of
) -> None:
    where, width = ("all-MiniLM-L6-v2", 384) if name == "bundled" else (str(folder_of(name)), 32)
    script = (
        "import sys\n"
        "from nearsay.training.sentence.light_encoder import open_encoder\n"
        f"encoder = open_encoder({where!r}, device='cpu')\n"
        f"assert encoder.encode(['hungry animals', 'a feeder']).shape == (2, {width})\n"
        "assert 'torch' not in sys.modules\n"  # so few are encoded without it
        f"assert encoder.encode([f'feeder {{n}}' for n in range(6000)]).shape == (6000, {width})\n"
        "assert 'torch' in sys.modules\n"
        "heavy = {'transformers', 'sentence_transformers', 'sklearn', 'scipy', 'huggingface_hub'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_tokens_add_up_to_the_vector_and_agree_with_the_runtime_by_torch(make_folder) -> None:
    light, full = both(make_folder())
    mine, theirs = light.contributions(TEXTS), full.contributions(TEXTS)
    assert mine is not None
    assert theirs is not None
    for own, other, vector in zip(mine, theirs, light.encode(TEXTS, kind=TextKind.QUERY), strict=True):
        assert np.abs(own.vectors - other.vectors).max() < 1e-5
        assert np.array_equal(own.spans, other.spans)
        assert (own.exact, own.whole) == (other.exact, other.whole)
        assert np.abs(own.total - vector).max() < 1e-5
    assert light.contributions(["the " * 15] * 400) is not None
    assert light._loaded is not None  # so many went by torch


def test_passages_and_many_questions_go_by_torch(make_folder) -> None:
    light, full = both(make_folder())
    letters = "abcdefghijklmnopqrst"
    many = [f"the cat sat the mat the cat {first} {second}" for first in letters for second in letters]
    equal = light.encode(many[:300] * 10, kind=TextKind.QUERY)  # each different one once
    assert equal.shape == (3000, 32)
    assert light._loaded is None
    more = light.encode(many, kind=TextKind.QUERY)
    assert light._loaded is not None
    assert np.abs(more[:300] - equal[:300]).max() < 1e-5
    assert np.array_equal(light.encode(many[:300], kind=TextKind.QUERY), equal[:300])  # though torch is there
    (window,) = light.stream([TEXTS])
    assert np.abs(window.vectors - full.encode(TEXTS)).max() < 1e-5


def test_few_passages_are_stored_without_torch_and_more_by_it(
    make_folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_encoder, "_MOST_OF_PASSAGES", 100)  # TEXTS have 47 tokens
    light, full = both(make_folder())
    expected = full.encode(TEXTS)
    assert np.abs(light.encode(TEXTS) - expected).max() < 1e-5
    windows = light.stream(iter([TEXTS, TEXTS]))
    assert np.abs(next(windows).vectors - expected).max() < 1e-5
    assert light._loaded is None
    assert np.abs(next(windows).vectors - expected).max() < 1e-5
    assert light._loaded is not None
    assert np.array_equal(light.encode(TEXTS), light._loaded.encode(TEXTS))  # since it is there


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="it lists what a process has mapped")
def test_nothing_of_the_weights_stays_mapped(make_folder) -> None:
    folder = make_folder()  # a file written anew would end a process that has it mapped
    light = open_encoder(folder, device="cpu")
    assert str(folder) not in Path("/proc/self/maps").read_text()
    expected = light.encode(TEXTS, kind=TextKind.QUERY)
    weights = folder / "model.safetensors"
    weights.write_bytes(b"\0" * weights.stat().st_size)
    assert np.array_equal(light.encode(TEXTS, kind=TextKind.QUERY), expected)


def test_a_long_question_is_encoded_here_as_it_is_cut(make_folder) -> None:
    light, _ = both(make_folder())
    assert light.encode(["the cat sat " * 6_000], kind=TextKind.QUERY).shape == (1, 32)
    assert light._loaded is None


def test_a_larger_encoder_stores_fewer_passages_without_torch(
    folder_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = open_encoder(folder_of("bert"), device="cpu")
    monkeypatch.setattr(light_encoder, "_BUNDLED_SIZE", 2 * 32**2 // 4)  # a quarter of this encoder's
    assert isinstance(light, LightEncoder)
    larger = LightEncoder(light._source, device="cpu")
    assert larger._most_of_passages == light._most_of_passages // 4


def test_weights_behind_links_are_read_as_a_hub_stores_them(make_folder) -> None:
    weights = make_folder() / "model.safetensors"
    weights.rename(weights.with_name("0123abc"))
    weights.symlink_to("0123abc")
    assert_same(*both(weights.parent))


@pytest.mark.usefixtures("passages_by_torch")
def test_no_passages_load_nothing(make_folder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_encoder(make_folder("bert"))

    def unwanted(*_args: object, **_options: object) -> None:
        raise AssertionError("torch was asked for")

    monkeypatch.setattr(Encoder, "load_found", unwanted)
    assert list(opened.stream(iter([]))) == []
    with pytest.raises(AssertionError):
        list(opened.stream(iter([["a cat"]])))


@pytest.mark.usefixtures("passages_by_torch")
def test_passages_that_are_only_compared_are_encoded_without_torch(make_folder) -> None:
    light, full = both(make_folder())
    window = light.encode_window(TEXTS, kind=TextKind.PASSAGE)
    assert light._loaded is None
    assert np.abs(window.vectors - full.encode_window(TEXTS).vectors).max() < 1e-5
    light.encode(TEXTS)
    assert light._loaded is not None
    assert np.array_equal(light.encode_window(TEXTS).vectors, light._loaded.encode_window(TEXTS).vectors)


def test_the_lack_of_parts_of_cls_pooling_is_known_without_torch(make_folder) -> None:
    light, full = both(make_folder(pooling="cls"))
    assert light.contributions(TEXTS) is None
    assert full.contributions(TEXTS) is None
    assert light._loaded is None


def test_a_question_has_one_vector_whatever_is_asked_beside_it(make_folder) -> None:
    light, _ = both(make_folder())
    together = light.encode(TEXTS[:3], kind=TextKind.QUERY)
    for text, vector in zip(TEXTS[:3], together, strict=True):
        assert np.abs(light.encode([text], kind=TextKind.QUERY)[0] - vector).max() < 1e-6


@pytest.mark.usefixtures("passages_by_torch")
def test_a_question_does_not_wait_for_torch_to_be_loaded_for_passages(
    make_folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    light, full = both(make_folder())
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> Encoder:
        begun.set()
        assert go_on.wait(60)
        return full

    monkeypatch.setattr(Encoder, "load_found", slow)
    with ThreadPoolExecutor(1) as pool:
        passages = pool.submit(light.encode, TEXTS)
        assert begun.wait(60)
        try:
            assert light.encode(TEXTS[:1], kind=TextKind.QUERY).shape == (1, 32)
            assert light.encode_window(TEXTS).vectors.shape == (len(TEXTS), 32)
            assert light.contributions(TEXTS) is not None
            assert not passages.done()
        finally:
            go_on.set()
        assert np.array_equal(passages.result(), full.encode(TEXTS))


@pytest.mark.usefixtures("passages_by_torch")
def test_a_folder_that_changed_since_is_not_mixed_with_what_is_open(make_folder) -> None:
    light, _ = both(make_folder(seed=0))
    make_folder(seed=1)
    with pytest.raises(NearsayError, match=light.fingerprint[:12]):
        light.encode(["the cat"])


def test_half_characters_are_refused_as_by_torch(make_folder) -> None:
    light, _ = both(make_folder())
    with pytest.raises(BadInputError):
        light.encode(["the \ud800"], kind=TextKind.QUERY)
    with pytest.raises(BadInputError):
        light.token_offsets(["the \ud800"])


def test_a_kind_is_understood_as_plain_text(make_folder) -> None:
    light = open_encoder(make_folder(prompts={"query": "the ", "document": "a dog . "}), device="cpu")
    for kind in TextKind:
        assert np.array_equal(light.encode(["cat"], kind=str(kind)), light.encode(["cat"], kind=kind))


def test_weights_that_no_model_is_made_of_are_passed_over(make_folder) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    save_file({name: 2 * tensor for name, tensor in weights.items()}, folder / "model_other.safetensors")
    light, _ = both(folder)
    source = find_encoder(folder)
    model = load_model(source.folder, "cpu")
    given = Encoder(model, source, device="cpu", precision=Precision.FLOAT32, weights={})
    assert np.abs(light.encode(TEXTS, kind=TextKind.QUERY) - given.encode(TEXTS)).max() < 1e-5


def test_weights_in_parts_are_read(make_folder) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    expected = open_encoder(folder, device="cpu").encode(TEXTS, kind=TextKind.QUERY)
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    files = {}
    for part, some in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{part}-of-00002.safetensors"
        save_file({name: weights[name] for name in some}, folder / file, metadata={"format": "pt"})
        files |= dict.fromkeys(some, file)
    index = {"metadata": {}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    old = {name: tensor + 1 for name, tensor in weights.items()}  # of weights that were there before
    save_file(old, folder / "model-00003-of-00003.safetensors", metadata={"format": "pt"})
    light, full = both(folder)
    assert np.array_equal(light.encode(TEXTS, kind=TextKind.QUERY), expected)
    assert_same(light, full)


def test_a_question_imports_neither_torch_nor_transformers() -> None:
    script = (
        "import sys\n"
        "from nearsay.training.sentence.light_encoder import open_encoder\n"
        "from nearsay.training.sentence.text_encoder import TextKind\n"
        "vectors = open_encoder().encode(['hungry animals'], kind=TextKind.QUERY)\n"
        "assert vectors.shape == (1, 384)\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'sklearn', 'scipy', 'huggingface_hub'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
