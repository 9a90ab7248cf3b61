"""Encoders put together: pooling, projection, normalisation, length."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.prompts import SAVED_NAMES, prompts_of_model

TEXT = "the cat sat"


def built(folder: Path, structure: EncoderStructure, seed: int = 0) -> SentenceTransformer:
    return build_encoder(EncoderFolder(folder), structure, device="cpu", seed=seed).eval()


def token_vectors(folder: Path) -> np.ndarray:
    tokens = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0].numpy()


@pytest.mark.parametrize("pooling", list(SentencePooling))
def test_each_pooling_gives_what_its_formula_says(pooling: SentencePooling, tiny_folder: Path) -> None:
    states = token_vectors(tiny_folder)
    weights = np.arange(1, len(states) + 1)[:, None]
    expected = {
        SentencePooling.CLS: states[0],
        SentencePooling.MEAN: states.mean(axis=0),
        SentencePooling.MAX: states.max(axis=0),
        SentencePooling.MEAN_SQRT_LENGTH: states.sum(axis=0) / len(states) ** 0.5,
        SentencePooling.WEIGHTED: (states * weights).sum(axis=0) / weights.sum(),
        SentencePooling.LAST: states[-1],
    }[pooling]
    encoder = built(tiny_folder, EncoderStructure(pooling=pooling, normalise=False))
    vectors = encoder.encode([TEXT, "the mat sat on the dog and the cat"])  # the second one pads the first
    np.testing.assert_allclose(vectors[0], expected, atol=1e-5)


def test_what_is_not_asked_for_stays_as_the_base_has_it(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(pooling="cls", prompts={"query": "query: "}, max_seq_length=12)
    encoder = built(folder, EncoderStructure())
    assert [type(module).__name__ for module in encoder] == ["Transformer", "Pooling", "Normalize"]
    assert encoder[1].pooling_mode == "cls"
    assert encoder.max_seq_length == 12
    assert encoder.prompts["query"] == "query: "
    plain = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_array_equal(encoder.encode([TEXT]), plain.encode([TEXT]))


def test_an_encoder_whose_vectors_were_cut_short_is_no_base(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text("utf-8")) | {"truncate_dim": 4}), "utf-8")
    with pytest.raises(BadInputError, match=r"\b4 dimensions .*Train"):
        built(folder, EncoderStructure())


def test_a_projection_is_drawn_from_the_seed_and_normalised_after(tiny_folder: Path) -> None:
    first, again, other = (built(tiny_folder, EncoderStructure(dimension=5), seed) for seed in (1, 1, 2))
    vectors = first.encode([TEXT])
    assert vectors.shape == (1, 5)
    assert np.linalg.norm(vectors) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_array_equal(vectors, again.encode([TEXT]))
    assert not np.allclose(vectors, other.encode([TEXT]))


def test_it_is_saved_so_that_both_load_it_and_give_the_same(tiny_folder: Path, tmp_path: Path) -> None:
    structure = EncoderStructure(pooling=SentencePooling.WEIGHTED, dimension=6, normalise=True, length=8)
    encoder = built(tiny_folder, structure)
    encoder.save(str(tmp_path / "saved"), create_model_card=False)
    vectors = encoder.encode([TEXT, "a dog"])
    np.testing.assert_allclose(
        SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode([TEXT, "a dog"]), vectors, atol=1e-6
    )
    ours = Encoder.load(tmp_path / "saved", device="cpu", precision=Precision.FLOAT32)
    np.testing.assert_allclose(ours.encode([TEXT, "a dog"]), vectors, atol=1e-6)
    assert ours.max_tokens == 6  # of 8, two are [CLS] and [SEP]
    rebuilt = built(tmp_path / "saved", EncoderStructure(dimension=6))  # what it has already stays
    np.testing.assert_allclose(rebuilt.encode([TEXT, "a dog"]), vectors, atol=1e-6)


def test_another_pooling_leaves_out_the_projection_that_was_trained_for_the_old_one(
    tiny_folder: Path, tmp_path: Path
) -> None:
    built(tiny_folder, EncoderStructure(dimension=6)).save(str(tmp_path / "saved"), create_model_card=False)
    encoder = built(tmp_path / "saved", EncoderStructure(pooling=SentencePooling.CLS))
    assert encoder.get_embedding_dimension() == 32


def test_more_dimensions_than_vectors_have_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"1000000000000.*65536"):
        EncoderStructure(dimension=10**12)


def test_a_length_beyond_the_positions_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(BadInputError, match=r"65 tokens.*at most 64"):
        built(tiny_folder, EncoderStructure(length=65))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["roberta", "mpnet", "xlm-roberta", "camembert", "luke"])
def test_the_positions_that_a_roberta_keeps_for_padding_hold_no_tokens(
    kind: str, make_folder_of: Callable[..., Path]
) -> None:
    folder = make_folder_of(kind, max_position_embeddings=34, pad_token_id=1, max_seq_length=34)
    long = "cat " * 100
    with pytest.raises(BadInputError, match=r"33 tokens.*at most 32"):
        built(folder, EncoderStructure(length=33))
    assert built(folder, EncoderStructure(length=32)).encode([long]).shape == (1, 16)
    capped = built(folder, EncoderStructure())  # though the folder itself asks for 34
    assert capped.max_seq_length == 32
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    assert encoder.max_tokens == 30  # beside [CLS] and [SEP]
    np.testing.assert_allclose(encoder.encode([long]), capped.encode([long]), atol=1e-5)


@pytest.mark.parametrize("values", [{"dimension": 0}, {"length": 2}])
def test_a_structure_that_cannot_be_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(BadInputError, match=r"(?i)give"):
        EncoderStructure(**values)


def test_a_prompt_that_pooling_leaves_out_is_refused(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(prompts={"query": "query: "}, include_prompt=False)
    with pytest.raises(BadInputError, match="Set include_prompt to true"):
        built(folder, EncoderStructure())


def test_prompts_of_the_base_stay_and_given_ones_take_their_place(make_folder: Callable[..., Path]) -> None:
    named = {"search_query": "q: ", "search_document": "d: ", "clustering": "c: "}
    folder = make_folder(prompts=named)
    assert built(folder, EncoderStructure()).prompts == {
        "clustering": "c: ",
        "query": "q: ",
        "document": "d: ",
    }
    given = built(folder, EncoderStructure(query_prompt="", passage_prompt="passage: "))
    assert given.prompts == {"clustering": "c: ", "query": "", "document": "passage: "}
    # sentence-transformers would put the default before every text that it is given.
    settings = {"prompts": {"any": "a: "}, "default_prompt_name": "any"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")
    kept = built(folder, EncoderStructure())
    assert kept.prompts == {"any": "a: ", "query": "a: ", "document": "a: "}
    assert kept.prompts[kept.default_prompt_name or ""] == "a: "
    none = built(folder, EncoderStructure(query_prompt="", passage_prompt=""))
    assert (none.prompts["query"], none.prompts["document"], none.default_prompt_name) == ("", "", None)


@pytest.mark.parametrize(
    ("default", "given", "wanted"),
    [
        ("search_query", EncoderStructure(), "query"),
        ("search_document", EncoderStructure(), "document"),
        ("search_query", EncoderStructure(query_prompt="ask: "), None),
        ("clustering", EncoderStructure(), None),
        (None, EncoderStructure(), None),
    ],
)
def test_a_plain_text_gets_the_default_prompt_of_the_base_if_it_is_still_that_of_a_kind(
    make_folder: Callable[..., Path], default: str | None, given: EncoderStructure, wanted: str | None
) -> None:
    named = {"search_query": "q: ", "search_document": "d: ", "clustering": "c: "}
    folder = make_folder()
    settings = {"prompts": named, "default_prompt_name": default}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")
    assert built(folder, given).default_prompt_name == wanted


def test_prompts_of_other_tasks_stay_where_none_is_taken_for_that_of_queries_or_passages(
    make_folder: Callable[..., Path],
) -> None:
    named = {"query": "q: ", "s2s_query": "s: ", "document": "", "doc-title": "t: ", "corpus_only": "c: "}
    folder = make_folder(prompts=named)
    own = built(folder, EncoderStructure())
    assert own.prompts == {"query": "q: ", "s2s_query": "s: ", "document": ""}
    given = built(folder, EncoderStructure(query_prompt="", passage_prompt="d: "))
    assert given.prompts == {"query": "", "document": "d: ", "doc-title": "t: ", "corpus_only": "c: "}
    for model in (own, given):
        told = {"query": model.prompts["query"], "document": model.prompts["document"]}
        assert {SAVED_NAMES[kind]: text for kind, text in prompts_of_model(model).items()} == told


def test_a_structure_without_prompts_is_told_as_before_there_were_any() -> None:
    assert not any(name.endswith("prompt") for name in EncoderStructure().to_json())
    assert EncoderStructure(query_prompt="").to_json()["query_prompt"] == ""


def test_a_given_prompt_that_pooling_leaves_out_is_refused(make_folder: Callable[..., Path]) -> None:
    with pytest.raises(BadInputError, match="Set include_prompt to true"):
        built(make_folder(include_prompt=False), EncoderStructure(query_prompt="query: "))


def test_a_prompt_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadInputError, match="passage_prompt is 3"):
        EncoderStructure(passage_prompt=3)  # type: ignore[arg-type]  # as a recipe may say
