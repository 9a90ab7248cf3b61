"""Features of chosen layers, against transformers' own hidden states."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertModel

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.bert.features import FeatureExtractor
from nearsay.training.bert.layers import LayerChoice, Pooling, layer_choices
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind, encoded_texts

MakeFolder = Callable[..., Path]

TEXTS = [
    "the cat sat",
    "",
    "a dog",
    "the cat sat on the mat . the dog sat on the cat . the mat sat on the dog",
    "naïve 日本 😀",
    "[SEP] the [MASK] cat",
]
CHOICES = [str(choice) for choice in layer_choices(5)] + ["last", "second-to-last"]


def extractor(folder: Path, **options: object) -> FeatureExtractor:
    options.setdefault("precision", Precision.FLOAT32)
    return FeatureExtractor.load(folder, device="cpu", **options)  # type: ignore[arg-type]  # passed through


def encoded(
    features: FeatureExtractor, texts: Sequence[str], kind: TextKind = TextKind.PASSAGE
) -> NDArray[np.float32]:
    return encoded_texts(features, texts, kind=kind)[0]


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    """A BERT of five layers, saved by transformers without anything of sentence-transformers'."""
    folder = tmp_path_factory.mktemp("five")
    torch.manual_seed(5)
    config = transformers.BertConfig.from_pretrained(tiny_folder, num_hidden_layers=5, initializer_range=0.3)
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_folder, model_max_length=16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def features(five: Path) -> FeatureExtractor:
    return extractor(five, layers="concat-last-4", pooling="max")


@pytest.fixture(scope="module")
def states(five: Path) -> list[list[torch.Tensor]]:
    """What transformers gives for each text alone: its layers' states, each (tokens, 32)."""
    model = BertModel.from_pretrained(five).eval()
    tokenizer = AutoTokenizer.from_pretrained(five)
    alone = []
    for text in TEXTS:
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=16)
        with torch.no_grad():
            output = model(**tokens, output_hidden_states=True)
        alone.append([layer[0] for layer in output.hidden_states])
    return alone


def expected(states: list[list[torch.Tensor]], layers: str, pooling: str) -> NDArray[np.float32]:
    """The definition, text by text, without a mask."""
    pick: dict[str, Callable[[list[torch.Tensor]], torch.Tensor]] = {
        "last": lambda of: of[-1],
        "second-to-last": lambda of: of[-2],
        "sum-last-4": lambda of: of[-4] + of[-3] + of[-2] + of[-1],
        "concat-last-4": lambda of: torch.cat(of[-4:], dim=1),
        "sum-all": lambda of: of[1] + of[2] + of[3] + of[4] + of[5],
    }
    pool: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "cls": lambda tokens: tokens[0],
        "mean": lambda tokens: tokens.mean(dim=0),
        "max": lambda tokens: tokens.max(dim=0).values,
    }
    rows = [pool[pooling](of[int(layers)] if layers.isdigit() else pick[layers](of)) for of in states]
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("layers", CHOICES)
def test_every_choice_is_made_of_transformers_own_hidden_states(
    layers: str, five: Path, states: list[list[torch.Tensor]]
) -> None:
    for pooling in Pooling:
        features = extractor(five, layers=layers, pooling=pooling)
        vectors = encoded(features, TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        assert vectors.shape == (len(TEXTS), features.dimension)
        np.testing.assert_allclose(vectors, expected(states, layers, pooling), atol=1e-5)


def test_layers_above_the_highest_wanted_are_not_run(five: Path) -> None:
    for layers, run in {"0": 1, "2": 2, "second-to-last": 4, "sum-all": 5}.items():
        assert extractor(five, layers=layers)._states.layers == run


def test_the_last_layers_mean_is_the_sentence_encoders_vector(make_folder: MakeFolder) -> None:
    folder = make_folder(layers=3)
    vectors = encoded(extractor(folder), TEXTS)
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    assert encoder.normalised
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert abs(lengths - 1).max() > 0.1
    np.testing.assert_allclose(vectors / lengths, encoder.encode(TEXTS), atol=1e-5)


def test_the_bundled_encoders_vectors_are_its_last_layers_mean(bundled: Encoder) -> None:
    texts = ["The ferry was late again.", "Nobody minded: the sea lay still.", "A word"]
    vectors = encoded(FeatureExtractor.load(device="cpu", precision=Precision.FLOAT32), texts)
    cosines = (vectors * bundled.encode(texts)).sum(axis=1) / np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(cosines, 1, atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_neither_order_nor_company_matters(texts: list[str], seed: int, features: FeatureExtractor) -> None:
    order = np.random.default_rng(seed).permutation(len(texts))
    together = encoded(features, texts)
    alone = np.concatenate([encoded(features, [text]) for text in texts])
    np.testing.assert_allclose(
        encoded(features, [texts[place] for place in order]), together[order], atol=1e-5
    )
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_a_short_text_beside_a_long_one_is_padded_in_the_same_batch(
    five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = extractor(five, layers="sum-all", pooling="mean")
    widths: list[tuple[int, ...]] = []
    forward = features._states._model.forward

    def seen(*, input_ids: torch.Tensor, **rest: object) -> object:
        widths.append(tuple(input_ids.shape))
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(features._states._model, "forward", seen)
    together = encoded(features, ["a", "a " * 14])
    assert widths == [(2, 16)]
    np.testing.assert_allclose(together[:1], encoded(features, ["a"]), atol=1e-5)


def test_equal_texts_go_through_the_model_once(five: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = extractor(five)
    seen: list[int] = []
    run = features._states.run

    def counted(token_ids: Sequence[Sequence[int]], take: Callable[..., None]) -> None:
        seen.append(len(token_ids))
        run(token_ids, take)

    monkeypatch.setattr(features._states, "run", counted)
    vectors = encoded(features, ["a cat", "a dog", "a cat"])
    assert seen == [2]
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_windows_come_out_as_they_went_in(five: Path) -> None:
    features = extractor(five)
    windows = list(features.stream([["a cat"], [], ["a dog", "x " * 40]]))
    assert [window.vectors.shape for window in windows] == [(1, 32), (0, 32), (2, 32)]
    assert [window.truncated for window in windows] == [0, 0, 1]
    assert encoded(features, []).shape == (0, 32)


def test_cut_texts_are_counted_each_time(five: Path) -> None:
    features = extractor(five)
    just_fits, too_long = "a " * 14, "a " * 15
    windows = features.stream([[just_fits], [too_long, "b", too_long]])
    assert [window.truncated for window in windows] == [0, 2]
    assert features.tokenized([too_long, "b", too_long]).truncated == 2


def test_prompts_are_put_before_their_kind_of_text_and_before_no_tokens(make_folder: MakeFolder) -> None:
    prompted = extractor(make_folder("prompted", prompts={"query": "query: ", "passage": "passage: "}))
    plain = extractor(make_folder("plain"))
    texts = ["the cat", "a dog"]
    for kind in TextKind:
        np.testing.assert_allclose(
            encoded(prompted, texts, kind=kind),
            encoded(plain, [f"{kind}: {text}" for text in texts]),
            atol=1e-6,
        )
    assert (prompted.max_tokens, prompted.max_text_tokens) == (12, 14)
    tokens = prompted.tokenized(texts)
    for ours, theirs in zip(prompted.token_blocks(tokens), plain.token_blocks(tokens), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert tokens.token_ids.tolist() == plain.tokenized(texts).token_ids.tolist()


@pytest.mark.parametrize(
    ("layers", "wanted"),
    [
        ("6", r"no layer 6: .*\b5\b.*\b0 .*to 5"),
        ("top", "'top' names no layers"),
    ],
)
def test_layers_that_are_not_there_are_refused(layers: str, wanted: str, five: Path) -> None:
    with pytest.raises(BadInputError, match=wanted):
        extractor(five, layers=layers)


def test_what_is_no_list_of_texts_is_refused(five: Path) -> None:
    features = extractor(five)
    for method in (partial(encoded, features), features.tokenized):
        with pytest.raises(TypeError, match="give a list of texts"):
            method("the cat")
        with pytest.raises(TypeError, match="a text is a int"):
            method(["a", 3])  # type: ignore[list-item]  # the mistake under test
        with pytest.raises(BadInputError, match="lone surrogate"):
            method(["fine", "broken \ud800 text"])


def test_damaged_weights_give_no_vectors(make_folder: MakeFolder) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][58] = float("nan")  # the row of "cat"
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    features = extractor(folder, layers="0")
    encoded(features, ["a dog"])
    with pytest.raises(NearsayError, match="the first to 'the cat'"):
        encoded(features, ["a dog", "the cat"])
    with pytest.raises(NearsayError, match="NaN or infinite"):
        list(features.token_blocks(features.tokenized(["a dog", "the cat"])))


def test_bfloat16_features_are_close_to_the_exact_ones(five: Path) -> None:
    exact = encoded(extractor(five, layers="sum-last-4"), TEXTS)
    narrow = encoded(extractor(five, layers="sum-last-4", precision=Precision.BFLOAT16), TEXTS)
    assert narrow.dtype == np.float32
    assert not np.array_equal(narrow, exact)
    cosines = (narrow * exact).sum(axis=1) / np.linalg.norm(narrow, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("family", ["Roberta", "DistilBert", "MPNet", "Electra"])
def test_layers_of_other_families_are_theirs_too(family: str, tmp_path: Path, tiny_folder: Path) -> None:
    torch.manual_seed(0)
    sizes = transformers.BertConfig.from_pretrained(tiny_folder).to_dict()
    names = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "pad_token_id")
    config = getattr(transformers, f"{family}Config")(
        **{name: sizes[name] for name in names},
        num_hidden_layers=3,
        max_position_embeddings=40,
        initializer_range=0.5,
    )
    model = getattr(transformers, f"{family}Model")(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.save_pretrained(tmp_path)
    text = "the cat sat on the mat"
    with torch.no_grad():
        tokens = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        wanted = model(**tokens, output_hidden_states=True).hidden_states[2][0].mean(dim=0)
    features = extractor(tmp_path, layers="2")
    np.testing.assert_allclose(encoded(features, [text, "a"])[0], wanted.numpy(), atol=1e-5)
    assert features._states.layers == 2


def test_a_choice_may_be_given_as_such(five: Path) -> None:
    given_so = extractor(five, layers=LayerChoice(number=2), pooling=Pooling.MAX)
    np.testing.assert_array_equal(
        encoded(given_so, TEXTS), encoded(extractor(five, layers="2", pooling="max"), TEXTS)
    )
