"""Encoders adapted from end to end, on a very small BERT."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.sentence.adaptation import adapt
from nearsay.training.sentence.adaptation.adapt import (
    Adaptation,
    adapt_encoder,
    is_better,
    partial_whitening,
)
from nearsay.training.sentence.adaptation.pseudo_queries import PseudoQuery, QueryKind, UnlabelledCorpus
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORT = Adaptation(held_out=8, precision=Precision.FLOAT32)


@pytest.fixture
def corpus() -> UnlabelledCorpus:
    random = np.random.default_rng(0)
    texts = tuple(" ".join(random.choice(list(LETTERS), 7)) + ". a b. c" for _ in range(40))
    return UnlabelledCorpus("letters", texts, ("",) * 40, tuple(f"d{n}" for n in range(40)))


def change(
    gained: float, *, sure: bool = True, kind: EvaluationKind = EvaluationKind.RETRIEVAL
) -> JudgedChange:
    about = 1e-3 if sure else 1.0
    return JudgedChange(
        f"a {kind} set", kind, "figure", 10, 0.5, 0.5 + gained, gained - about, gained + about
    )


def test_an_encoder_is_kept_only_if_the_held_out_gain_is_no_chance() -> None:
    assert is_better([change(0.02)])
    assert not is_better([change(0.02, sure=False)])
    assert not is_better([change(-0.02)])


def test_no_other_set_may_lose_more_than_a_hundredth_and_a_correlation_no_more_than_a_point() -> None:
    assert is_better([change(0.02), change(-0.009)])
    assert not is_better([change(0.02), change(-0.011)])
    assert is_better([change(0.02), change(-0.9, kind=EvaluationKind.STS)])
    assert not is_better([change(0.02), change(-1.1, kind=EvaluationKind.STS)])


def test_what_is_better_becomes_an_encoder_with_a_layer(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "is_better", lambda _: True)
    out = tmp_path / "out"
    assert adapt_encoder(corpus, out, base=tiny_folder, options=SHORT, device="cpu").adapted
    original, fitted = (
        Encoder.load(folder, device="cpu", precision=Precision.FLOAT32) for folder in (tiny_folder, out)
    )
    assert fitted.fingerprint != original.fingerprint
    assert fitted.lineage[-2] == Naming("without labels", "40 passages", "letters")
    assert LearnedTexts.of(out) == LearnedTexts.of(tiny_folder)
    vectors = unit_length(original.encode(corpus.texts))
    expected = unit_length(vectors @ partial_whitening(vectors, SHORT.power))
    np.testing.assert_allclose(unit_length(fitted.encode(corpus.texts)), expected, atol=2e-3)
    told = json.loads((out / "run" / "result.json").read_text("utf-8"))["evaluations"]
    assert [one["set"] for one in told] == ["held-out pseudo-queries", "general pairs", "general search"]


def test_both_encoders_look_among_what_lies_near_by_either(corpus: UnlabelledCorpus) -> None:
    queries = [PseudoQuery("a", 3, QueryKind.SENTENCE)]
    by_original, by_fitted = np.zeros((2, 1, 40), dtype=np.float32)
    by_original[0, 10:15] = by_fitted[0, 20:25] = 1.0
    judged = adapt._held_out_set(corpus, queries, (by_original, by_fitted))
    wanted = {f"passage {number}" for number in (3, *range(10, 15), *range(20, 25))}
    assert judged.retrieval_set.corpus.keys() == wanted


@pytest.mark.parametrize("case", ["prompts", "prompts not pooled", "vectors cut"])
def test_the_layer_stands_behind_the_vectors_as_the_encoder_gives_them(
    case: str,
    corpus: UnlabelledCorpus,
    make_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers: list[np.ndarray] = []

    def whitened(vectors: np.ndarray, power: float) -> np.ndarray:
        layers.append(partial_whitening(vectors, power))
        return layers[-1]

    monkeypatch.setattr(adapt, "is_better", lambda _: True)
    monkeypatch.setattr(adapt, "partial_whitening", whitened)
    prompts = None if case == "vectors cut" else {"query": "the dog : ", "document": "a cat : "}
    base = make_folder(prompts=prompts, include_prompt=case != "prompts not pooled")
    if case == "vectors cut":
        (base / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}', "utf-8")
    adapt_encoder(corpus, tmp_path / "out", base=base, options=SHORT, device="cpu")
    original, fitted = (
        Encoder.load(folder, device="cpu", precision=Precision.FLOAT32) for folder in (base, tmp_path / "out")
    )
    for kind in TextKind:
        moved = unit_length(original.encode(corpus.texts, kind=kind)) @ layers[0]
        np.testing.assert_allclose(
            fitted.encode(corpus.texts, kind=kind),
            moved / np.linalg.norm(moved, axis=1, keepdims=True),
            atol=1e-4,
        )


def test_what_is_not_better_leaves_no_encoder(
    corpus: UnlabelledCorpus, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(adapt, "is_better", lambda _: False)
    assert not adapt_encoder(corpus, out, base=tiny_folder, options=SHORT, device="cpu").adapted
    assert {path.name for path in out.iterdir()} == {"run"}
    assert {"config.json", "result.json"} <= {path.name for path in (out / "run").iterdir()}


def test_whitening_evens_the_variances_out() -> None:
    random = np.random.default_rng(0)
    vectors = (random.standard_normal((5_000, 6)) * [4, 2, 1, 1, 0.5, 0.25]).astype(np.float32)
    whole = np.cov((vectors @ partial_whitening(vectors, 1.0)).T)
    np.testing.assert_allclose(whole / whole[0, 0], np.eye(6), atol=0.05)
    half = np.diag(np.cov((vectors @ partial_whitening(vectors, 0.5)).T))
    np.testing.assert_allclose(half[0] / half[2], 4.0, rtol=0.1)  # a variance of 16 where the other is 1
    layer = partial_whitening(vectors, 0.3)
    np.testing.assert_allclose(layer, layer.T, atol=1e-6)


def test_fewer_passages_than_dimensions_move_hardly_anything_beyond_them() -> None:
    vectors = unit_length(np.random.default_rng(0).standard_normal((20, 64)).astype(np.float32))
    scales = np.linalg.eigvalsh(partial_whitening(vectors, 0.3).astype(np.float64))
    assert 0.7 < scales.min() <= scales.max() < 1.6


def test_single_sentences_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    texts = tuple(f"a b c {LETTERS[n]}." for n in range(20))
    single = UnlabelledCorpus("captions", texts, ("",) * 20, tuple(f"d{n}" for n in range(20)))
    with pytest.raises(BadInputError, match=r"100% .*captions"):
        adapt_encoder(single, tmp_path / "out", base=tiny_folder, options=SHORT, device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("power", [0.0, -1.0, 1.5])
def test_a_power_that_makes_no_sense_is_refused(power: float) -> None:
    with pytest.raises(BadInputError, match="power is"):
        Adaptation(power=power)
