from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.compression.static_encoder import (
    make_static_encoder,
    sif_weights,
    zipf_probabilities,
)
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.forward import joined

MakeFolder = Callable[..., Path]
TEXTS = ["the cat sat", "a dog", "the dog sat on the mat", "cat mat"]
MANY = [
    f"{first} {second} {third}" for first in ("cat", "dog", "the") for second in "abcd" for third in "efg"
]

EXACT: dict[str, Any] = {"device": "cpu", "precision": Precision.FLOAT32}


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, **EXACT)


def peer(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("static") / "quick"
    return make_static_encoder(tiny_folder, out, dimension=8, **EXACT).folder


def test_texts_one_after_another_with_their_beginnings() -> None:
    numbers, starts = joined([[5, 6], [], [7]], blank=3)
    assert numbers.tolist() == [5, 6, 3, 7]
    assert starts.tolist() == [0, 2, 3]


def test_a_token_has_its_own_vector_of_the_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    # As wide as the encoder, nothing is turned: rows are pooled vectors less their mean, weighted.
    out = make_static_encoder(tiny_folder, tmp_path / "quick", dimension=32, **EXACT).folder
    model = peer(tiny_folder)
    size = model.tokenizer.vocab_size
    with torch.inference_mode():
        numbers = torch.tensor([[2, token, 3] for token in range(size)])
        hidden = model[0].auto_model(input_ids=numbers).last_hidden_state
    rows = hidden.mean(dim=1).numpy()
    wanted = (rows - rows.mean(axis=0)) * sif_weights(zipf_probabilities(size))[:, None]
    np.testing.assert_allclose(load_file(out / "model.safetensors")["embedding.weight"], wanted, atol=1e-5)


def test_vectors_are_those_of_sentence_transformers(folder: Path) -> None:
    encoder = load(folder)
    assert (encoder.dimension, encoder.normalised, encoder.max_tokens) == (8, True, 512)
    np.testing.assert_allclose(encoder.encode(TEXTS), peer(folder).encode(TEXTS), atol=1e-6)


def test_no_special_token_is_in_the_mean(folder: Path) -> None:
    table = load_file(folder / "model.safetensors")["embedding.weight"].numpy()
    cat, dog = 58, 59
    mean = (table[cat] + table[dog]) / 2
    np.testing.assert_allclose(load(folder).encode(["cat dog"])[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_the_order_of_texts_and_batches_changes_nothing(folder: Path) -> None:
    encoder = load(folder)
    many = [" ".join(["cat", "dog", "mat"][: 1 + i % 3] * (1 + i % 50)) for i in range(1200)]
    alone = np.concatenate([encoder.encode([text]) for text in many[:160]])
    np.testing.assert_allclose(encoder.encode(many)[:160], alone, atol=1e-6)


def test_a_text_without_tokens_gets_a_vector(folder: Path) -> None:
    first = load_file(folder / "model.safetensors")["embedding.weight"][0].numpy()
    np.testing.assert_allclose(load(folder).encode(["", " "])[1], first / np.linalg.norm(first), atol=1e-6)


def test_texts_are_cut_where_the_folder_says(folder: Path, tmp_path: Path) -> None:
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 2}', "utf-8")
    try:
        encoder = load(folder)
        window = encoder.encode_window(["cat dog mat", "cat dog"])
    finally:
        (folder / "sentence_bert_config.json").unlink()
    assert (encoder.max_tokens, window.truncated) == (2, 1)
    np.testing.assert_array_equal(window.vectors[0], window.vectors[1])


def test_tables_in_half_precision_and_of_model2vec_are_run(folder: Path, make_folder: MakeFolder) -> None:
    wanted = load(folder).encode(TEXTS)
    file = folder / "model.safetensors"
    table = load_file(file)["embedding.weight"].clone()
    try:
        save_file({"embeddings": table.half()}, file)
        np.testing.assert_allclose(load(folder).encode(TEXTS), wanted, atol=1e-3)
    finally:
        save_file({"embedding.weight": table}, file)


def test_texts_bring_it_nearer_to_the_encoder(tiny: Encoder, tiny_folder: Path, tmp_path: Path) -> None:
    told: dict[str, tuple[int, int | None]] = {}
    plain = make_static_encoder(tiny_folder, tmp_path / "plain", dimension=16, **EXACT)
    fitted = make_static_encoder(
        tiny_folder,
        tmp_path / "fitted",
        dimension=16,
        texts=MANY,
        **EXACT,
        progress=lambda what, done, total: told.update({what: (done, total)}),
    )
    vectors = tiny.encode(MANY) - tiny.encode(MANY).mean(axis=0)
    wanted = np.corrcoef(vectors)

    def agreement(folder: Path) -> float:
        found = load(folder).encode(MANY)
        return float(np.corrcoef((found @ found.T).ravel(), wanted.ravel())[0, 1])

    assert agreement(fitted.folder) > agreement(plain.folder) + 0.1
    assert (fitted.texts, plain.texts) == (36, 0)
    assert told == {"tokens": (fitted.tokens, fitted.tokens), "texts": (36, 36)}
    assert "fitted to 36 texts" in load(fitted.folder).lineage[-2]


def test_what_cannot_be_made_is_refused(folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(NearsayError, match="begins with a StaticEmbedding"):
        make_static_encoder(folder, tmp_path / "again", **EXACT)
    with pytest.raises(BadInputError, match="vectors of 0 dimensions"):
        make_static_encoder(tiny_folder, tmp_path / "again", dimension=0)
    with pytest.raises(BadInputError, match="4 texts are too few"):
        make_static_encoder(
            tiny_folder,
            tmp_path / "again",
            dimension=8,
            texts=TEXTS,
            **EXACT,
            progress=lambda what, _done, _total: told.append(what),
        )
    assert "tokens" not in told  # of which a vocabulary has tens of thousands
    assert list(tmp_path.iterdir()) == []
