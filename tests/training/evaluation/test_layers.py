"""Every layer and pooling, measured on one pass over the texts."""

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.features import FeatureExtractor
from nearsay.training.bert.layers import HiddenStates, LayerChoice, Pooling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.layer_plot import layer_figure
from nearsay.training.evaluation.judged.layers import (
    LayerReport,
    LayerScore,
    StoredEncoder,
    StoredFeatures,
    evaluate_layers,
)
from nearsay.training.evaluation.judged.pairs import StsSet
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder, encoded_texts

MakeFolder = Callable[..., Path]

PAIRS = [
    ScoredPair("the cat sat", "a cat sat on the mat", 4.0),
    ScoredPair("the dog sat", "the cat sat", 2.5),
    ScoredPair("a dog", "the mat . the mat", 0.5),
    ScoredPair("a " * 40, "the dog sat", 0.0),
    ScoredPair("a mat", "the mat", 5.0),
    ScoredPair("hot", "cold", 1.0),
]
JUDGED = RetrievalSet(
    "pets",
    {
        "d1": "the cat sat on the mat",
        "d2": "a dog",
        "d3": "the dog sat",
        "d4": "query passage",
        "d5": "a " * 40,
    },
    {"q1": "a cat", "q2": "dogs sitting", "q3": "a " * 40},
    {"q1": {"d1": 1}, "q2": {"d2": 1, "d3": 2}, "q3": {"d5": 1, "d1": 0}},
)
ROWS = ["0", "1", "2", "3", "4", "5", "sum-last-4", "concat-last-4", "sum-all"]


@pytest.fixture
def bert(make_folder: MakeFolder) -> BertFolder:
    return load_bert(make_folder(layers=5))


def run(bert: BertFolder, judged: Sequence[ScoredPair] | RetrievalSet, **options: object) -> LayerReport:
    return evaluate_layers(bert, judged, device="cpu", precision=Precision.FLOAT32, **options)  # type: ignore[arg-type]


def alone(bert: BertFolder, score: LayerScore) -> FeatureExtractor:
    return FeatureExtractor(
        bert, LayerChoice.parse(score.layers), score.pooling, device="cpu", precision=Precision.FLOAT32
    )


def test_every_layer_and_combination_is_scored_under_each_pooling(bert: BertFolder) -> None:
    report = run(bert, PAIRS)
    scored = [(score.layers, str(score.pooling)) for score in report.scores]
    # [CLS] comes out of the embeddings the same for every text: there is nothing to correlate.
    assert scored == [(row, p) for row in ROWS for p in ("cls", "mean", "max") if (row, p) != ("0", "cls")]
    assert (report.encoder, report.layers, report.measure) == (bert.name, 5, "Spearman")
    assert report.truncated == 1
    assert report.seconds > 0


@pytest.mark.long
def test_each_score_is_what_the_choice_alone_reaches_on_pairs(bert: BertFolder) -> None:
    for score in run(bert, PAIRS).scores:
        found = StsSet("pets", tuple(PAIRS)).measure(alone(bert, score)).metrics
        wanted = {"Spearman": found["spearman"], "Pearson": found["pearson"]}
        assert score.figures == pytest.approx(wanted, abs=1e-3), (score.layers, score.pooling)


@pytest.mark.long
def test_each_score_is_what_the_choice_alone_reaches_in_retrieval(bert: BertFolder) -> None:
    report = run(bert, JUDGED)
    assert report.measure == "nDCG@10"
    assert report.truncated == 2  # the long query and the long document
    for score in report.scores:
        found = RetrievalJudgedSet("judged", JUDGED).measure(alone(bert, score))
        wanted = {
            "nDCG@10": found.metrics["ndcg_at_10"],
            "MRR@10": found.metrics["mrr_at_10"],
            "recall@100": found.metrics["recall_at_100"],
        }
        assert score.figures == pytest.approx(wanted, abs=1e-6), (score.layers, score.pooling)


def test_the_encoders_own_choice_reaches_what_the_encoder_reaches(bert: BertFolder) -> None:
    encoder = Encoder.load(bert.source, device="cpu", precision=Precision.FLOAT32)
    found = StsSet("pets", tuple(PAIRS)).measure(encoder).metrics
    (own,) = [s for s in run(bert, PAIRS).scores if (s.layers, s.pooling) == ("5", Pooling.MEAN)]
    assert own.figures == pytest.approx(
        {"Spearman": found["spearman"], "Pearson": found["pearson"]}, abs=1e-3
    )


def test_the_bundled_encoders_last_layers_mean_is_its_own_score(bundled: Encoder) -> None:
    pairs = [
        ScoredPair("The ferry was late again.", "Once more the boat did not come in time.", 4.5),
        ScoredPair("The ferry was late again.", "The bakery has rye bread on Fridays.", 0.2),
        ScoredPair("Bees sleep at night.", "At night the bees rest.", 4.8),
        ScoredPair("Bees sleep at night.", "Some wasps hunt bees.", 1.6),
        ScoredPair("Paint dries slowly in the cold.", "When it is cold, paint needs long to dry.", 5.0),
    ]
    report = run(load_bert(), pairs)
    (own,) = [s for s in report.scores if (s.layers, s.pooling) == ("6", Pooling.MEAN)]
    found = StsSet("pets", tuple(pairs)).measure(bundled).metrics
    assert report.figure(own) == pytest.approx(found["spearman"])
    assert own.figures["Pearson"] == pytest.approx(found["pearson"], abs=1e-3)


def test_each_different_text_goes_through_the_model_once(
    bert: BertFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []
    whole = HiddenStates.run

    def counted(self: HiddenStates, token_ids: Sequence[Sequence[int]], take: Callable[..., None]) -> None:
        seen.extend(tuple(ids) for ids in token_ids)
        whole(self, token_ids, take)

    monkeypatch.setattr(HiddenStates, "run", counted)
    texts = {text for pair in PAIRS for text in (pair.sentence1, pair.sentence2)}
    progress: list[tuple[int, int]] = []
    run(bert, [*PAIRS, *PAIRS], progress=lambda done, total: progress.append((done, total)))
    assert len(seen) == len(texts) == 10
    assert progress == [(10, 10)]


def test_small_windows_give_the_same_scores(bert: BertFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(bert, JUDGED)
    monkeypatch.setattr("nearsay.training.evaluation.judged.layers._WINDOW_TEXTS", 3)
    progress: list[tuple[int, int]] = []
    parts = run(bert, JUDGED, progress=lambda done, total: progress.append((done, total)))
    assert progress == [(3, 7), (6, 7), (7, 7)]  # q3 and d5 are one text
    for one, other in zip(whole.scores, parts.scores, strict=True):
        assert one.figures == pytest.approx(other.figures, abs=1e-6)


def test_a_stored_choice_is_the_encoder_that_computes_it(bert: BertFolder) -> None:
    texts = ["a cat", "the dog sat", "a " * 40]
    choice = LayerChoice.parse("concat-last-4")
    features = FeatureExtractor(bert, choice, Pooling.MAX, device="cpu", precision=Precision.FLOAT32)
    stored = StoredFeatures(bert, {TextKind.PASSAGE: texts}, device="cpu", precision=Precision.FLOAT32)
    encoder: VectorEncoder = StoredEncoder(stored, choice, Pooling.MAX)
    np.testing.assert_allclose(
        encoded_texts(encoder, texts[::-1])[0], encoded_texts(features, texts[::-1])[0], atol=1e-5
    )
    windows = list(encoder.stream([texts[1:], [texts[2]] * 2]))
    assert [window.truncated for window in windows] == [1, 2]
    assert (encoder.name, encoder.dimension) == (features.name, features.dimension)
    with pytest.raises(KeyError):
        encoded_texts(encoder, ["never given"])


def test_prompts_stand_before_queries_and_passages(make_folder: MakeFolder) -> None:
    bert = load_bert(make_folder(layers=2, prompts={"query": "query: ", "passage": "passage: "}))
    same = RetrievalSet("same", {"d": "a cat", "e": "dog"}, {"q": "a cat"}, {"q": {"d": 1}})
    texts = {TextKind.QUERY: ["a cat"], TextKind.PASSAGE: ["a cat", "dog"]}
    stored = StoredFeatures(bert, texts, device="cpu", precision=Precision.FLOAT32)
    encoder = StoredEncoder(stored, LayerChoice.parse("last"), Pooling.MEAN)
    as_query, as_passage = (encoded_texts(encoder, ["a cat"], kind=kind)[0] for kind in TextKind)
    assert not np.allclose(as_query, as_passage, atol=1e-3)
    score = run(bert, same).scores[-1]
    found = RetrievalJudgedSet("judged", same).measure(alone(bert, score))
    assert score.figures["nDCG@10"] == pytest.approx(found.metrics["ndcg_at_10"])


def test_a_small_model_has_only_the_combinations_it_has_layers_for(make_folder: MakeFolder) -> None:
    report = run(load_bert(make_folder(layers=2)), PAIRS)
    assert list(dict.fromkeys(score.layers for score in report.scores)) == ["0", "1", "2", "sum-all"]


def test_the_best_is_the_highest_and_of_equal_ones_the_first() -> None:
    report = made([("0", "mean", 3.0), ("1", "cls", 7.126), ("1", "mean", 7.126), ("sum-all", "max", 1.0)])
    assert (report.best.layers, report.best.pooling) == ("1", Pooling.CLS)
    assert report.shown(report.best) == "7.13"
    retrieval = made([("0", "mean", 0.64512)], measure="nDCG@10")
    assert retrieval.shown(retrieval.best) == "0.6451"


def test_nothing_to_measure_is_an_error(bert: BertFolder) -> None:
    with pytest.raises(BadInputError, match="no texts"):
        run(bert, [])
    with pytest.raises(BadInputError, match="two lists"):
        run(bert, PAIRS[:1])
    with pytest.raises(BadInputError, match="retrieval set 'pets'"):
        run(bert, RetrievalSet("pets", JUDGED.corpus, JUDGED.queries, {}))
    with pytest.raises(BadInputError, match="no device 'abacus'"):
        evaluate_layers(bert, PAIRS, device="abacus")


def test_a_full_temporary_folder_is_a_known_error(bert: BertFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile:
        def write(self, _: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None: ...

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: FullFile())
    with pytest.raises(DiskFullError, match=tempfile.gettempdir()):
        run(bert, PAIRS)


def made(scores: list[tuple[str, str, float]], measure: str = "Spearman") -> LayerReport:
    return LayerReport(
        encoder="mine",
        layers=max(int(layers) for layers, _, _ in scores if layers.isdigit()),
        measure=measure,
        scores=tuple(
            LayerScore(layers, Pooling(pooling), {measure: value}) for layers, pooling, value in scores
        ),
        truncated=0,
        seconds=1.0,
    )


SCORES = [
    ("0", "mean", 30.0),
    ("0", "max", 20.0),
    ("1", "cls", 50.0),
    ("1", "mean", 60.0),
    ("1", "max", 10.0),
    ("sum-all", "cls", 40.0),
    ("sum-all", "mean", 55.0),
    ("sum-all", "max", 15.0),
]


def test_the_plot_has_a_line_a_pooling_and_marks_for_the_combinations() -> None:
    (axes,) = layer_figure(made(SCORES)).axes
    drawn = {
        (line.get_color(), line.get_linestyle()): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    }
    colours = {
        text.get_text(): line.get_color()
        for text, line in zip(axes.get_legend().get_texts(), axes.get_legend().get_lines(), strict=True)
    }
    assert drawn[colours["cls"], "-"] == ([1], [50.0])
    assert drawn[colours["mean"], "-"] == ([0, 1], [30.0, 60.0])
    assert drawn[colours["max"], "-"] == ([0, 1], [20.0, 10.0])
    assert drawn[colours["mean"], "None"] == ([3], [55.0])
    assert "best: 1 mean, 60.00" in colours
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "sum-all"]
    assert axes.get_ylabel() == "Spearman × 100"
