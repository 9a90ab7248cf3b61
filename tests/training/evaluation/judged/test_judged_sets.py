"""Each kind of judged set: its figures by hand, and against sentence-transformers' evaluators."""

import warnings
from collections.abc import Callable, Iterator
from math import log2
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    RerankingEvaluator,
    TripletEvaluator,
)
from sklearn.linear_model import LogisticRegression
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import find_leaks
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.bootstrap import bootstrap_interval
from nearsay.training.evaluation.judged.classification import ClassificationSet, NliSet, linear_predictions
from nearsay.training.evaluation.judged.clustering import ClusteringSet
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, JudgedSet, evaluate_judged_set
from nearsay.training.evaluation.judged.lists import Candidates, RerankingSet, TripletSet, list_figures
from nearsay.training.evaluation.judged.pairs import PairSet, StsSet
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.vectors import pair_features

TABLE = {"east": (2, 0), "far east": (9, 1), "north": (0, 5), "far north": (0.5, 5), "west": (-3, 0)}
WORDS = ("the", "cat", "dog", "sat", "mat", "query", "passage")


def sentence(random: np.random.Generator) -> str:
    return " ".join(random.choice(WORDS, size=int(random.integers(1, 9))))


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def theirs(tiny_folder: Path) -> Iterator[SentenceTransformer]:
    """The tiny encoder, run by sentence-transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield SentenceTransformer(str(tiny_folder), device="cpu")


SETS: tuple[JudgedSet, ...] = (
    StsSet(
        "ways", tuple(ScoredPair("east", other, score) for other, score in zip(TABLE, range(5), strict=True))
    ),
    TripletSet(
        "ways",
        ((("east", "far east", "north"),), (("east", "west", "north"),), (("north", "far north", "west"),)),
    ),
    PairSet("ways", (("east", "far east", True), ("east", "north", False), ("north", "far north", True))),
    RerankingSet("ways", (Candidates("east", ("far east",), ("north", "west")),) * 3),
    RetrievalJudgedSet(
        "ways",
        RetrievalSet(
            "ways", TABLE_TEXTS := {name: name for name in TABLE}, TABLE_TEXTS, {"east": {"far east": 1}}
        ),
    ),
    ClusteringSet("ways", (("east", "E"), ("far east", "E"), ("north", "N"), ("far north", "N"))),
)


@pytest.mark.parametrize("judged", SETS, ids=[str(each.kind) for each in SETS])
def test_the_main_figure_is_what_all_items_drawn_once_give(judged: JudgedSet, table_encoder: type) -> None:
    outcome = evaluate_judged_set(table_encoder(TABLE), judged)
    assert (outcome.name, outcome.kind, outcome.items) == ("ways", judged.kind, len(judged))
    assert outcome.resampled(np.arange(outcome.items)) == pytest.approx(outcome.figure)
    assert outcome.figure == outcome.metrics[outcome.main]
    interval = bootstrap_interval(outcome)
    assert interval.low <= outcome.figure + 1e-9
    assert interval.high >= outcome.figure - 1e-9


@pytest.mark.parametrize("judged", SETS, ids=[str(each.kind) for each in SETS])
def test_texts_that_are_cut_are_counted_and_progress_ends_at_all_of_them(
    judged: JudgedSet, table_encoder: type
) -> None:
    calls: list[tuple[int, int]] = []
    encoder = table_encoder(TABLE, truncated=["east"])
    outcome = evaluate_judged_set(encoder, judged, progress=lambda done, total: calls.append((done, total)))
    times = sum(text == "east" for text in judged.texts())
    times += judged.kind is EvaluationKind.RETRIEVAL  # its documents are no texts to check for leaks
    assert outcome.truncated == times
    assert calls[-1][0] == calls[-1][1] > 0
    assert outcome.seconds > 0


@pytest.mark.parametrize("judged", SETS, ids=[str(each.kind) for each in SETS])
def test_what_is_held_out_are_the_texts_those_judged_together_as_one(judged: JudgedSet) -> None:
    held_out = [(one,) if isinstance(one, str) else one for one in judged.held_out()]
    if judged.kind is EvaluationKind.RETRIEVAL:
        assert held_out == [("east",), ("east", "far east")]
        return
    assert [text for row in held_out for text in row] == list(judged.texts())
    widths = {
        EvaluationKind.STS: 2,
        EvaluationKind.PAIRS: 2,
        EvaluationKind.NLI: 2,
        EvaluationKind.TRIPLETS: 3,
        EvaluationKind.RERANKING: len(held_out[0]),
    }
    assert {len(row) for row in held_out} == {widths.get(judged.kind, 1)}


def test_another_judgement_of_the_same_texts_is_another_content() -> None:
    documents = {"d": "east", "e": "west"}
    texts = (("east", "E"),)
    changed: tuple[tuple[JudgedSet, JudgedSet], ...] = (
        (StsSet("s", (ScoredPair("a", "b", 1.0),)), StsSet("s", (ScoredPair("a", "b", 2.0),))),
        (PairSet("s", (("a", "b", True),)), PairSet("s", (("a", "b", False),))),
        (
            RerankingSet("s", (Candidates("a", ("b",), ("c",)),)),
            RerankingSet("s", (Candidates("a", ("c",), ("b",)),)),
        ),
        (ClusteringSet("s", texts), ClusteringSet("s", (("east", "W"),))),
        (
            ClassificationSet("s", texts, train=texts, train_name="t"),
            ClassificationSet("s", texts, train=(("east", "W"),), train_name="t"),
        ),
        (
            RetrievalJudgedSet("s", RetrievalSet("s", documents, {"q": "go"}, {"q": {"d": 1, "e": 2}})),
            RetrievalJudgedSet("s", RetrievalSet("s", documents, {"q": "go"}, {"q": {"d": 2, "e": 1}})),
        ),
    )
    for one, other in changed:
        assert list(one.content()) == list(one.content())
        assert list(one.content()) != list(other.content())


def test_pairs_are_worked_by_hand(table_encoder: type) -> None:
    outcome = evaluate_judged_set(table_encoder(TABLE), SETS[2])
    assert outcome.metrics["average_precision"] == outcome.metrics["best_f1"] == 1
    # Cosines .994, 0 and .995: the threshold is halfway between .994 and 0.
    assert outcome.metrics["best_f1_threshold"] == pytest.approx(9 / 82**0.5 / 2)
    # Distances √50, √29 and .5: a threshold on them is told as a distance.
    assert outcome.metrics["average_precision_euclidean"] == pytest.approx((1 + 2 / 3) / 2)
    assert outcome.metrics["best_accuracy_threshold_euclidean"] == pytest.approx((29**0.5 + 0.5) / 2)
    assert dict(outcome.details) == {"pairs": 3, "same": 2}


def test_triplets_are_worked_by_hand(table_encoder: type) -> None:
    assert evaluate_judged_set(table_encoder(TABLE), SETS[1]).metrics["accuracy"] == pytest.approx(2 / 3)


def test_triplets_of_one_row_are_drawn_together(table_encoder: type) -> None:
    right, wrong = ("east", "far east", "north"), ("east", "west", "north")
    judged = TripletSet("ways", ((right, wrong, wrong), (right,)))
    outcome = evaluate_judged_set(table_encoder(TABLE), judged)
    assert (len(judged), outcome.items) == (2, 2)
    assert outcome.metrics["accuracy"] == 1 / 2  # each triplet counts the same
    drawn = [outcome.resampled(np.array(rows)) for rows in ((0, 1), (0, 0), (1, 1), (0, 0, 1))]
    assert drawn == pytest.approx([1 / 2, 1 / 3, 1, 3 / 7])
    assert dict(outcome.details) == {"triplets": 4, "rows": 2}


def test_copies_of_triplets_in_a_row_make_an_interval_no_narrower(table_encoder: type) -> None:
    alone = ((("east", "far east", "north"),), (("east", "west", "north"),)) * 10
    often = tuple(row * 25 for row in alone)
    first, second = (
        bootstrap_interval(evaluate_judged_set(table_encoder(TABLE), judged))
        for judged in (TripletSet("ways", alone), TripletSet("ways", often))
    )
    assert (second.low, second.high) == pytest.approx((first.low, first.high))


def test_a_quick_look_takes_whole_rows_of_triplets() -> None:
    rows = tuple(tuple((f"a{row}", "p", f"n{number}") for number in range(row + 1)) for row in range(9))
    some = TripletSet("many", rows).limited(4, 0)
    kept = [int(anchor[1:]) for anchor, _, _ in some.triplets]
    assert len(some) == len(set(kept)) == 4
    assert all(kept.count(row) == row + 1 for row in kept)


def test_only_documents_that_answer_are_held_out_with_their_query() -> None:
    found = RetrievalSet(
        "ways", {"d": "a cat", "e": "rain", "f": "a dog"}, {"q": "pets"}, {"q": {"d": 2, "e": 0, "f": 1}}
    )
    held_out = list(RetrievalJudgedSet("ways", found).held_out())
    assert held_out == [("pets",), ("pets", "a cat"), ("pets", "a dog")]


def test_a_passage_without_its_title_leaks_beside_its_query() -> None:
    found = RetrievalSet("ways", {"d": "Pets A cat purrs."}, {"q": "what purrs"}, {"q": {"d": 1}})
    rows = (("A cat purrs.", "What purrs?"), ("Pets", "A cat purrs."))
    train = SentenceExamples("train", ExampleKind.PAIRS, ("text", "question"), rows, None)
    assert find_leaks(train, RetrievalJudgedSet("ways", found).held_out()).leaking == (0,)


def test_a_list_is_worked_by_hand_and_equal_scores_win_nothing() -> None:
    # Positives at the ranks 2 and 3 of three.
    scores = np.array([0.5, 0.2, 0.9], dtype=np.float32)
    precision, reciprocal, gain = list_figures(scores, 2)
    assert precision == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert reciprocal == pytest.approx(1 / 2)
    assert gain == pytest.approx((1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3)))
    assert list_figures(np.ones(4, dtype=np.float32), 1)[1] == pytest.approx(1 / 4)


def test_queries_and_anchors_are_encoded_as_queries_and_symmetric_texts_as_passages(
    table_encoder: type,
) -> None:
    for judged, kinds in (
        (SETS[0], [TextKind.PASSAGE]),
        (SETS[1], [TextKind.QUERY, TextKind.PASSAGE]),
        (SETS[3], [TextKind.QUERY, TextKind.PASSAGE]),
    ):
        encoder = table_encoder(TABLE)
        evaluate_judged_set(encoder, judged)
        assert encoder.kinds == kinds


def test_clusters_that_are_the_labels_reach_one_and_one_label_is_refused(table_encoder: type) -> None:
    table = {"east": (9, 0), "far east": (9, 1), "north": (0, 9), "far north": (1, 9)}
    outcome = evaluate_judged_set(table_encoder(table), SETS[5])
    assert outcome.metrics["v_measure"] == pytest.approx(1)
    assert outcome.details["v_measure_by_seed"] == pytest.approx([1.0] * 5)
    with pytest.raises(BadInputError, match="one label alone, 'E'"):
        evaluate_judged_set(table_encoder(TABLE), ClusteringSet("one", (("east", "E"), ("far east", "E"))))


def test_labels_are_told_by_a_linear_layer_that_learned_from_the_train_rows(words: WordsEncoder) -> None:
    # One label has words of 3 letters, the other of 5: the lengths alone tell them apart.
    train = tuple((f"{'cat' if row % 2 else 'sheep'} {'a ' * (row % 5)}", str(row % 2)) for row in range(40))
    items = (("a dog", "1"), ("a horse", "0"), ("a mouse", "0"), ("dog dog", "never seen"))
    outcome = evaluate_judged_set(words, ClassificationSet("pets", items, train, "train.tsv"))
    assert outcome.metrics["accuracy"] == 0.75
    # F1 of "0" is 1, of "1" 2 · 1 / 3, of what was never seen 0.
    assert outcome.metrics["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert (outcome.details["train"], outcome.details["train_rows"]) == ("train.tsv", 40)


def test_the_linear_layer_does_as_well_as_scikit_learns(random: np.random.Generator) -> None:
    centres = random.normal(size=(3, 8))
    labels = random.integers(0, 3, 300)
    vectors = (centres[labels] + 0.7 * random.normal(size=(300, 8))).astype(np.float32)
    names = [f"label {label}" for label in labels]
    found, _ = linear_predictions(vectors[:200], names[:200], vectors[200:], "blobs")
    theirs = LogisticRegression(max_iter=1000).fit(vectors[:200], names[:200]).predict(vectors[200:])
    agreed = np.mean([ours == other for ours, other in zip(found, theirs, strict=True)])
    assert agreed >= 0.95
    assert np.mean([ours == name for ours, name in zip(found, names[200:], strict=True)]) > 0.8


def test_the_penalty_is_chosen_on_rows_of_every_label_where_they_take_turns(
    random: np.random.Generator,
) -> None:
    labels = (np.arange(200) % 5 == 0).astype(np.int64)  # every tenth row is of label 0
    vectors = (random.normal(size=(200, 8)) + 3 * labels[:, None]).astype(np.float32)
    names = [str(label) for label in labels]
    found, penalty = linear_predictions(vectors, names, vectors, "turns")
    # The strongest one says label 0 to all, and so to all of every tenth row rightly.
    assert penalty > 0.0001
    assert np.mean([ours == name for ours, name in zip(found, names, strict=True)]) > 0.95


def test_a_linear_layer_learns_where_one_label_has_one_row() -> None:
    vectors = np.eye(10, dtype=np.float32)
    names = ["a"] * 9 + ["b"]
    assert linear_predictions(vectors, names, vectors[:2], "pets")[0] == ["a", "a"]


@pytest.mark.parametrize(("rows", "labels"), [(9, ["a", "b"]), (30, ["a"])])
def test_a_linear_layer_needs_rows_of_two_labels(rows: int, labels: list[str]) -> None:
    vectors = np.ones((rows, 2), dtype=np.float32)
    with pytest.raises(BadInputError, match=f"pets: .*training.* {rows} rows"):
        linear_predictions(vectors, [labels[row % len(labels)] for row in range(rows)], vectors, "pets")


def test_an_encoder_that_tells_nothing_apart_wins_nothing_by_it(
    table_encoder: type, random: np.random.Generator
) -> None:
    lists = [Candidates("q", ("p",), ("n",) * negatives) for negatives in range(1, 40)]
    same = tuple(random.normal(size=384).tolist())
    encoder = table_encoder({"q": tuple(random.normal(size=384).tolist()), "p": same, "n": same})
    outcome = evaluate_judged_set(encoder, RerankingSet("s", tuple(lists)))
    # One of all is relevant, and in each list all have exactly one score.
    assert outcome.metrics["map"] == pytest.approx(np.mean([1 / size for size in range(2, 41)]))
    assert outcome.metrics["mrr_at_10"] == pytest.approx(sum(1 / size for size in range(2, 11)) / 39)


def test_what_no_layer_can_learn_from_is_refused_before_anything_is_encoded(words: WordsEncoder) -> None:
    with pytest.raises(BadInputError, match=r"pets: .*training.* 1 rows"):
        evaluate_judged_set(words, ClassificationSet("pets", (("a", "b"),), (("a", "b"),), "train.tsv"))
    assert not words.encoded


def test_nli_tells_by_what_two_vectors_have_in_common(tiny: Encoder, random: np.random.Generator) -> None:
    rows = []
    for row in range(90):
        premise = sentence(random)
        same = row % 2 == 0
        rows.append((premise, premise if same else sentence(random), "entailment" if same else "neutral"))
    outcome = evaluate_judged_set(tiny, NliSet("pets", tuple(rows[60:]), tuple(rows[:60]), "train.tsv"))
    assert outcome.metrics["accuracy"] > 0.9  # |u-v| is 0 for the one, and hardly ever for the other
    assert outcome.details["train_rows"] == 60


def test_the_features_of_a_pair_are_four_parts_side_by_side() -> None:
    u, v = np.array([[1, 2]], dtype=np.float32), np.array([[3, -1]], dtype=np.float32)
    assert pair_features(u, v).tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]


def test_nli_learns_from_no_more_rows_than_it_is_told(tiny: Encoder, random: np.random.Generator) -> None:
    rows = tuple((sentence(random), sentence(random), "ab"[row % 2]) for row in range(60))
    outcome = evaluate_judged_set(tiny, NliSet("pets", rows[:10], rows, "train.tsv", most_train_rows=20))
    assert outcome.details["train_rows"] == 20


@pytest.mark.parametrize("judged", SETS, ids=[str(each.kind) for each in SETS])
def test_a_quick_look_says_that_it_is_one(judged: JudgedSet) -> None:
    assert judged.limited(100, 0) is judged
    if len(judged) > 1:
        some = judged.limited(len(judged) - 1, 0)
        assert len(some) == len(judged) - 1
        assert "not comparable with published figures" in some.notes[-1]
        assert set(some.texts()) <= set(judged.texts())
        assert some == judged.limited(len(judged) - 1, 0)


def test_a_quick_look_keeps_what_is_judged_and_draws_training_rows_too() -> None:
    judgements = {str(query): {str(query): 1} for query in range(20)}
    corpus = {str(number): f"text {number}" for number in range(500)}
    queries = {str(query): f"query {query}" for query in range(20)}
    whole = RetrievalJudgedSet("many", RetrievalSet("many", corpus, queries, judgements))
    some = whole.limited(5, 1).retrieval_set
    assert len(some.queries) == len(some.judgements) == 5
    assert len(some.corpus) == 50
    assert all(document in some.corpus for judged in some.judgements.values() for document in judged)
    items = tuple((f"text {row}", str(row % 2)) for row in range(100))
    quick = ClassificationSet("many", items, items, "train.tsv").limited(6, 0)
    assert (len(quick), len(quick.train)) == (6, 30)


def test_scored_pairs_agree_with_sentence_transformers(
    tiny: Encoder, theirs: SentenceTransformer, random: np.random.Generator
) -> None:
    rows = [(sentence(random), sentence(random), float(random.integers(0, 6))) for _ in range(40)]
    first, second, scores = map(list, zip(*rows, strict=True))
    names = ["cosine", "dot", "euclidean", "manhattan"]
    expected = EmbeddingSimilarityEvaluator(first, second, scores, similarity_fn_names=names)(theirs)
    found = evaluate_judged_set(tiny, StsSet("x", tuple(ScoredPair(*row) for row in rows))).metrics
    for name in names:
        end = "" if name == "cosine" else f"_{name}"
        assert found[f"spearman{end}"] / 100 == pytest.approx(expected[f"spearman_{name}"], abs=1e-6)
        assert found[f"pearson{end}"] / 100 == pytest.approx(expected[f"pearson_{name}"], abs=1e-6)


def test_triplets_and_pairs_agree_with_sentence_transformers(
    tiny: Encoder, theirs: SentenceTransformer, random: np.random.Generator
) -> None:
    rows = [(sentence(random), sentence(random), sentence(random)) for _ in range(60)]
    rows = [row for row in rows if len({*row}) == 3]
    names = ["cosine", "dot", "euclidean", "manhattan"]
    expected = TripletEvaluator(*map(list, zip(*rows, strict=True)), similarity_fn_names=names)(theirs)
    found = evaluate_judged_set(tiny, TripletSet("x", tuple((row,) for row in rows))).metrics
    assert found["accuracy"] == pytest.approx(expected["cosine_accuracy"], abs=1e-6)
    assert found["accuracy_manhattan"] == pytest.approx(expected["manhattan_accuracy"], abs=1e-6)
    first, second, _ = map(list, zip(*rows, strict=True))
    same = [bool(row % 3) for row in range(len(rows))]
    expected = BinaryClassificationEvaluator(
        first, second, [int(label) for label in same], similarity_fn_names=names
    )(theirs)
    found = evaluate_judged_set(tiny, PairSet("x", tuple(zip(first, second, same, strict=True)))).metrics
    for name in names:
        end = "" if name == "cosine" else f"_{name}"
        assert found[f"average_precision{end}"] == pytest.approx(expected[f"{name}_ap"], abs=1e-6)
        assert found[f"best_f1{end}"] == pytest.approx(expected[f"{name}_f1"], abs=1e-6)
        assert found[f"best_accuracy{end}"] == pytest.approx(expected[f"{name}_accuracy"], abs=1e-6)
        assert found[f"best_accuracy_threshold{end}"] == pytest.approx(
            expected[f"{name}_accuracy_threshold"], abs=1e-4
        )


def test_the_anchor_of_a_triplet_is_a_query_as_in_training_and_in_sentence_transformers(
    make_folder: Callable[..., Path], random: np.random.Generator
) -> None:
    folder = make_folder(prompts={"query": "query the dog ", "document": "passage "})
    rows = [(sentence(random), sentence(random), sentence(random)) for _ in range(60)]
    rows = [row for row in rows if len({*row}) == 3]
    theirs = SentenceTransformer(str(folder), device="cpu")
    expected = TripletEvaluator(*map(list, zip(*rows, strict=True)))(theirs)
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    found = evaluate_judged_set(encoder, TripletSet("x", tuple((row,) for row in rows))).metrics
    assert found["accuracy"] == pytest.approx(expected["cosine_accuracy"], abs=1e-6)
    anchors, positives, negatives = (encoder.encode(list(texts)) for texts in zip(*rows, strict=True))
    as_passages = ((anchors * (positives - negatives)).sum(axis=1) > 0).mean()
    assert found["accuracy"] != pytest.approx(as_passages, abs=1e-6)


def test_rankings_agree_with_sentence_transformers(
    tiny: Encoder, theirs: SentenceTransformer, random: np.random.Generator
) -> None:
    texts = list(dict.fromkeys(f"{sentence(random)} {sentence(random)}" for _ in range(80)))
    lists = [
        Candidates(sentence(random), tuple(texts[start : start + 2]), tuple(texts[start + 2 : start + 8]))
        for start in range(0, 64, 8)
    ]
    samples = [
        {"query": each.anchor, "positive": list(each.positives), "negative": list(each.negatives)}
        for each in lists
    ]
    expected = RerankingEvaluator(samples)(theirs)
    found = evaluate_judged_set(tiny, RerankingSet("x", tuple(lists))).metrics
    assert found["map"] == pytest.approx(expected["map"], abs=1e-6)
    assert found["mrr_at_10"] == pytest.approx(expected["mrr@10"], abs=1e-6)
    assert found["ndcg_at_10"] == pytest.approx(expected["ndcg@10"], abs=1e-6)
    corpus = {f"d{row}": text for row, text in enumerate(texts)}
    queries = {f"q{row}": each.anchor for row, each in enumerate(lists)}
    judgements = {f"q{row}": {f"d{8 * row}": 1, f"d{8 * row + 1}": 1} for row in range(len(lists))}
    expected = InformationRetrievalEvaluator(
        queries, corpus, {query: set(documents) for query, documents in judgements.items()}
    )(theirs)
    judged = RetrievalJudgedSet("x", RetrievalSet("x", corpus, queries, judgements))
    found = evaluate_judged_set(tiny, judged).metrics
    assert found["ndcg_at_10"] == pytest.approx(expected["cosine_ndcg@10"], abs=1e-6)
    assert found["mrr_at_10"] == pytest.approx(expected["cosine_mrr@10"], abs=1e-6)
