"""Judgements make the live search better, or nothing is changed; and it can be taken back."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from naming import Naming
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.learned_texts import LEARNED_FILE, LearnedTexts
from nearsay.indexer import Collection, Library, improving
from nearsay.indexer.catalogue.judgements import Judgement, Part, drawn, in_part, query_hash
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.improving import ENCODER, KEEP, Improvement, TrainedEncoder, evidence
from nearsay.indexer.judgements import figures
from nearsay.indexer.judgements.figures import JudgedPart
from nearsay.indexer.query.ranking import weight_of_words
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress
from nearsay.training.evaluation.judged.bootstrap import interval_of_mean
from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set
from nearsay.training.evaluation.judged.replay import Replayed, general_search
from nearsay.training.sentence.query_adapter import QueryAdapter, fit_query_adapter
from nearsay.training.sentence.text_encoder import TextKind

LETTERS = "bcdfghjklmnpqrstvwxz"


@pytest.fixture
def mistaken(library: Library) -> Collection:
    """Questions of words of 3 letters, whose answers have words of 7: by their lengths they lie far apart.

    Beside them stand passages of 3 letters, which answer nothing, and no word is in two texts.
    """
    collection = library.collection("mistaken")
    rows = []
    for at in range(20):
        for other in range(3):
            short = LETTERS[at] + LETTERS[other] + "o"
            rows.append({"id": f"lure{at}-{other}", "text": f"{short} {short}{LETTERS[at]}"})
        long = LETTERS[at] * 7
        rows.append({"id": f"answer{at}", "text": f"{long} {'y' * (1 + at % 2)}"})
    collection.add_rows(rows)
    return collection


def test_the_queries_held_out_are_chosen_by_a_look_at_each() -> None:
    looked = 0

    class Query(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal looked
            looked += 1
            return str.__eq__(self, other)

    judged = {Query(f"query {number}"): {("a", 0): True} for number in range(1_000)}
    train = JudgedPart(judged, np.arange(1_000, dtype=np.float32)[:, None])
    looked = 0
    held_out = improving._held_out(train)
    assert 150 < len(held_out.judged) < 350
    assert [f"query {number:.0f}" for number in held_out.vectors[:, 0]] == [*held_out.judged]
    assert looked < 3_000
    one = JudgedPart({"b": {("a", 0): True}, "a": {("a", 0): True}}, np.eye(2, dtype=np.float32))
    assert len(improving._held_out(one).judged) >= 1


def judge(collection: Collection, count: int) -> None:
    """Questions of short words that stand in no passage, each answered by a passage of long ones."""
    for at in range(count):
        first = LETTERS[at % 20] + LETTERS[(at * 7 + 3) % 20] + "a"
        query = f"{first} {'i' * (1 + at % 2)}{'u' * (at // 20)}"
        collection.judgements.add(query, f"answer{(at * 7) % 20}", True)


def learnable(collection: Collection) -> set[str]:
    return {query_hash(one.query) for one in in_part(collection.judgements.list(), Part.TRAIN)}


@pytest.mark.long
def test_what_the_judgements_teach_is_recommended_applied_and_taken_back(mistaken: Collection) -> None:
    judge(mistaken, 60)
    heard: list[Progress] = []
    found = mistaken.improve(progress=heard.append)
    assert list(dict.fromkeys((one.doing, one.unit) for one in heard)) == [
        ("encoding judged queries", "queries"),
        ("measuring what is live", "queries"),
        ("measuring", "candidates"),
        ("measuring on general sets", "texts"),
        ("timing", "queries"),
    ]
    assert all(one.done <= one.total for one in heard if one.total is not None)
    assert not found.applied
    assert found.training_queries + found.test_queries == 60
    assert found.recommended in ("query adapter", "adapter and weight")
    by_name = {one.name: one for one in found.candidates}
    chosen = by_name[found.recommended]
    assert chosen.verdict == "recommended"
    assert chosen.learned is not None
    assert chosen.learned_low is not None
    assert chosen.learned >= chosen.learned_low > 0
    assert by_name[KEEP].learned == 0.0

    question = in_part(mistaken.judgements.list(), Part.TEST)[0].query
    before = mistaken.search(question, 3)
    assert not before[0].id.startswith("answer")
    embedded = len(mistaken.snapshot().vectors)
    assert mistaken.improve(apply=True).applied
    after = mistaken.search(question, 3)
    assert after[0].id.startswith("answer")
    assert len(mistaken.snapshot().vectors) == embedded
    assert "queries refined" in after[0].lineage.made_by[-1]
    assert mistaken.search(question, 3, mode="lexical").hits == ()  # words are looked for as before

    assert mistaken.undo_improvement() == Naming("queries", "not refined")
    assert [hit.id for hit in mistaken.search(question, 3)] == [hit.id for hit in before]
    with pytest.raises(BadInputError, match="not refined"):
        mistaken.undo_improvement()


def test_what_was_refined_meanwhile_stays(mistaken: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(mistaken, 60)
    held_out, done = improving._held_out, list[Improvement]()

    def overtaken(train: JudgedPart) -> JudgedPart:
        monkeypatch.setattr(improving, "_held_out", held_out)
        done.append(mistaken.improve(apply=True))
        return held_out(train)

    monkeypatch.setattr(improving, "_held_out", overtaken)
    with pytest.raises(BusyError, match="'mistaken'"):
        mistaken.improve(apply=True)
    assert done[0].applied
    mistaken.undo_improvement()
    assert mistaken.snapshot().refinement is None


def test_a_query_whose_only_answer_has_no_vector_yet_teaches_nothing(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    before = mistaken.snapshot()
    mistaken.add_rows(
        [{"id": "late", "text": "late late"}]
    )  # judged by another before the snapshot is taken anew
    for at in range(8):
        mistaken.judgements.add(f"lat{at} lat", "late", True)
    monkeypatch.setattr(type(mistaken), "snapshot", lambda *_: before)
    found = mistaken.improve()
    assert all(np.isfinite(one.learned) for one in found.candidates if one.learned is not None)


@pytest.mark.long
def test_another_reader_sees_it_at_its_next_search(
    mistaken: Collection, open_library: Callable[[], Library]
) -> None:
    judge(mistaken, 60)
    reader = open_library().collection("mistaken")
    question = in_part(mistaken.judgements.list(), Part.TEST)[0].query
    assert not reader.search(question, 1)[0].id.startswith("answer")
    mistaken.improve(apply=True)
    assert reader.search(question, 1)[0].id.startswith("answer")


def test_with_nothing_to_gain_what_there_is_is_kept(mistaken: Collection) -> None:
    for at in range(20):
        mistaken.judgements.add(LETTERS[at] * 7, f"answer{at}", True)  # found by its word already
    found = mistaken.improve(apply=True)
    assert (found.recommended, found.applied) == (KEEP, False)
    assert mistaken.snapshot().refinement is None


@pytest.mark.long
def test_no_judged_test_query_is_learned_from_and_the_lineage_names_those_that_are(
    mistaken: Collection,
) -> None:
    judge(mistaken, 60)
    mistaken.improve(apply=True)
    refinement = mistaken.snapshot().refinement
    assert refinement is not None
    learned = set(refinement.report["learned_from"])
    train, test = (
        {query_hash(one.query) for one in in_part(mistaken.judgements.list(), part)} for part in Part
    )
    assert learned == train
    assert not learned & test


def test_without_a_test_part_nothing_is_measured_there(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 40)
    train = [one for one in mistaken.judgements.list() if query_hash(one.query) in learnable(mistaken)]
    assert 8 <= len(train) < 40
    monkeypatch.setattr(type(mistaken.judgements), "list", lambda _: train)
    found = mistaken.improve()
    assert (found.training_queries, found.test_queries) == (len(train), 0)
    assert [one.name for one in found.candidates][:2] == [KEEP, "query adapter"]
    assert all(one.tested is None for one in found.candidates)


def test_a_gain_of_words_or_of_an_encoder_is_held_to_the_queries_of_both_parts() -> None:
    noise = np.random.default_rng(1).normal(size=60)
    gains = 0.06 + 0.2 * (noise - noise.mean()) / noise.std()
    assert evidence(gains, None) == interval_of_mean(gains, level=0.95)
    both = evidence(gains, gains - 0.1)
    assert both == interval_of_mean(np.concatenate([gains, gains - 0.1]), level=0.95)
    assert evidence(gains, None).low > 0 > both.low


def test_an_adapter_is_taken_for_what_all_scores_say_not_for_ranks_alone(mistaken: Collection) -> None:
    """Few queries change ranks: the gain is too noisy by nDCG@10 and plain by log-likelihood."""
    snapshot = mistaken.snapshot()
    ranks = np.array([0.3, 0.2, -0.1] + [0.0] * 37)
    likelier = 0.1 + 0.05 * np.random.default_rng(2).normal(size=40)
    unsure = improving._row("adapter", ranks, None, None, snapshot, tuple)
    assert unsure.verdict == "no significant gain"
    sure = improving._row("adapter", ranks, None, None, snapshot, tuple, (likelier, None))
    assert sure.verdict == ""
    assert sure.likelihood_low is not None
    assert 0 < sure.likelihood_low < likelier.mean()
    worse = improving._row("adapter", -ranks, None, None, snapshot, tuple, (likelier, None))
    assert worse.verdict == "no significant gain"
    few = np.array([-0.1, 0.0])  # on the test part, too, all scores say more than a rank that changed
    held = improving._row("adapter", ranks, few, None, snapshot, tuple, (likelier, np.array([0.1, 0.0])))
    assert held.verdict == ""
    loses = improving._row("adapter", ranks, -few, None, snapshot, tuple, (likelier, np.array([-0.1, 0.0])))
    assert loses.verdict == "loses on the test part"


def test_what_shards_no_longer_search_is_measured_on_what_they_search_now(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 20)
    searches, searched = [], figures.search

    def written(store: Any, snapshot: Any, *given: Any) -> Any:
        searches.append(snapshot)
        if len(searches) == 1 or always:
            mistaken.add_rows([{"id": f"new{len(searches)}", "text": "anything"}])
            raise StaleSnapshotError
        return searched(store, snapshot, *given)

    monkeypatch.setattr(figures, "search", written)
    always = False
    assert mistaken.improve().training_queries
    versions = [snapshot.collection.version for snapshot in searches]
    assert versions[0] < min(versions[1:])
    always = True
    with pytest.raises(BusyError, match="mistaken"):
        mistaken.improve()


@pytest.mark.parametrize("count", [0, 5])
def test_from_too_few_judgements_what_there_is_is_kept_with_the_reason(
    mistaken: Collection, count: int
) -> None:
    judge(mistaken, count)
    found = mistaken.improve(apply=True)
    assert (found.recommended, found.applied) == (KEEP, False)
    assert [one.name for one in found.candidates] == [KEEP]
    assert found.notes[0] == Naming(8, "nearsay judgements next mistaken")
    assert (found.live is None) is (count == 0)


@pytest.mark.long
def test_a_test_query_that_the_encoder_learned_from_measures_nothing(
    mistaken: Collection, tmp_path: Path
) -> None:
    judge(mistaken, 60)
    every = mistaken.improve()
    asked = {one.query for one in in_part(mistaken.judgements.list(), Part.TEST)}
    learned = LearnedTexts().with_texts([min(asked).upper() + "?"], "texts")
    (tmp_path / "trained" / "run").mkdir(parents=True)
    (tmp_path / "trained" / "run" / LEARNED_FILE).write_text(json.dumps(learned.to_json()))
    mistaken.rebuild(WordsEncoder(name=str(tmp_path / "trained")))
    mistaken.promote(gate=False)
    found = mistaken.improve()
    assert found.test_queries == every.test_queries - 1
    assert found.training_queries == every.training_queries
    assert found.notes[0] == Naming("1 query", "test part", "left out")


@pytest.mark.long
def test_of_many_queries_some_are_searched_for_and_all_are_learned_from(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    train, test = (
        {one.query for one in in_part(mistaken.judgements.list(), part)} for part in (Part.TRAIN, Part.TEST)
    )
    assert len(test) > 6
    monkeypatch.setattr(improving, "MEASURED", 6)
    fitted, searched = list[int](), set[str]()

    def fit(queries: Any, *rest: Any) -> QueryAdapter:
        fitted.append(len(queries))
        return fit_query_adapter(queries, *rest)

    def search(_: Any, __: Any, vectors: Any, ___: Any, texts: list[str]) -> Any:
        searched.update(texts)
        return figures_search(_, __, vectors, ___, texts)

    figures_search = figures.search
    monkeypatch.setattr(improving, "fit_query_adapter", fit)
    monkeypatch.setattr(figures, "search", search)
    found, learned, measured = tried_with(mistaken, Translating(name="tuned"), monkeypatch)
    assert set(fitted) == {len(train)}
    assert len(searched & train) == len(searched & test) == 6
    assert (found.training_queries, found.test_queries) == (len(train), len(test))
    assert found.notes[0] == Naming("6 queries", "words")
    assert test < set(measured)  # the encoder learns from none of them, searched for or not
    assert not set(measured) & set(learned)
    live = mistaken.snapshot().refinement
    if live is not None:
        assert set(live.report["learned_from"]) == {query_hash(one) for one in train}


def test_which_queries_are_drawn_depends_on_each_alone() -> None:
    queries = [f"query {number}" for number in range(50)]
    places = drawn(queries, 10)
    assert places == sorted(set(places))
    assert len(places) == 10
    some = {queries[at] for at in places}
    fewer = [query for query in queries if query in some or query.endswith("7")]
    assert {fewer[at] for at in drawn(fewer, 10)} == some
    assert drawn(queries[:3], 10) == [0, 1, 2]


@pytest.mark.long
def test_a_whole_query_is_timed_as_it_is_and_each_other_way(mistaken: Collection) -> None:
    judge(mistaken, 60)
    spent = [one.milliseconds for one in mistaken.improve().candidates]
    assert all(each is not None and each > 0 for each in spent)


@pytest.mark.long
def test_an_adapter_by_which_a_general_set_is_searched_for_worse_is_not_recommended(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    lost = Replayed("general search", 0.5, 0.48, -0.04, -0.01, held=False)
    monkeypatch.setattr(figures, "replay", lambda *_: (lost,))
    found = mistaken.improve(apply=True)
    by_name = {one.name: one for one in found.candidates}
    assert by_name["query adapter"].verdict == Naming("loses", "general", "0.480", "0.500", "-0.020")
    assert by_name["query adapter"].replay == (lost,)
    assert found.recommended in (KEEP, "weight of words")


@pytest.mark.long
def test_of_the_strengths_one_is_taken_by_which_general_sets_are_found_as_before(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    (usual,) = (one for one in mistaken.improve().candidates if one.name == "query adapter")
    before: list[Any] = []

    def replayed(_: Any, after: Any, *__: object) -> tuple[Replayed, ...]:
        before.append(after)
        return (Replayed("general search", 0.5, 0.48, -0.04, -0.01, held=len(before) > 1),)

    monkeypatch.setattr(figures, "replay", replayed)
    (milder,) = (one for one in mistaken.improve().candidates if one.name == "query adapter")
    assert milder.strength != usual.strength
    assert milder.replay[0].held
    assert "loses" not in milder.verdict
    assert len(before) == 2  # each adapter is measured once


@pytest.mark.long
def test_a_general_set_is_searched_for_with_and_without_the_adapter(mistaken: Collection) -> None:
    judge(mistaken, 60)
    found = mistaken.improve()
    (general,) = next(one for one in found.candidates if one.name == found.recommended).replay
    plain = evaluate_judged_set(WordsEncoder(), general_search())
    assert general.before == pytest.approx(plain.figure, abs=5e-4)
    assert general.held


@pytest.mark.long
def test_a_refinement_is_of_its_generation_and_goes_with_it(mistaken: Collection) -> None:
    judge(mistaken, 60)
    mistaken.improve(apply=True)
    mistaken.rebuild(WordsEncoder(name="wide", dimension=12))
    mistaken.promote(gate=False)
    assert mistaken.snapshot().refinement is None
    mistaken.rollback()
    assert mistaken.snapshot().refinement is not None
    mistaken.promote(2, gate=False)
    mistaken.compact(drop_retired=True)
    mistaken.delete()
    assert not mistaken.exists()


def test_a_weight_of_words_is_that_of_the_fusion(mistaken: Collection) -> None:
    from nearsay.indexer.catalogue import collections, refinements

    question = LETTERS[0] * 7
    scores = mistaken.search(question, 1)[0].scores
    assert scores.fused is not None
    assert scores.dense is not None
    words = scores.fused - scores.dense
    snapshot = mistaken.snapshot()
    with mistaken.library.store.database.writing() as connection:
        refinements.add(connection, snapshot.collection.id, 1, Refinement(0, None, 0.8, {}, ""))
        collections.changed(connection, snapshot.collection.id)
    mistaken.snapshot()  # what another wrote may be searched a tenth of a second later
    heavier = mistaken.search(question, 1)[0].scores
    assert heavier.fused is not None
    assert heavier.dense is not None
    assert heavier.fused - heavier.dense == pytest.approx(4 * words)  # .2 became .8
    assert np.isclose(heavier.dense, scores.dense)


class Translating(WordsEncoder):
    """Knows that questions' words of 3 letters stand for words of 7, or of so many."""

    letters = 7

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        if kind is TextKind.QUERY:
            texts = [re.sub(r"\b\w{3}\b", "x" * self.letters, text) for text in texts]
        return super().encode(texts, kind=kind)


def tried_with(
    collection: Collection, encoder: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> tuple[Improvement, list[str], list[str]]:
    """What is recommended where the encoder was trained; the queries to learn from and to measure on."""
    for module in (figures, improving):
        monkeypatch.setattr(module, "replay", lambda *_: ())
    asked: list[list[str]] = []

    def trained(learn: Sequence[Judgement], measured: Sequence[str]) -> TrainedEncoder:
        asked.extend([[one.query for one in learn], list(measured)])
        number = collection.rebuild(encoder).generation
        return TrainedEncoder(collection.snapshot(number), encoder)

    found = collection.improve(apply=True, trained=trained)
    return found, asked[0], asked[1]


def test_an_encoder_that_answers_better_waits_for_the_gate(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improving, "_trials", lambda *_: [])
    judge(mistaken, 60)
    found, learned, measured = tried_with(mistaken, Translating(name="tuned"), monkeypatch)
    assert (found.recommended, found.applied) == (ENCODER, False)
    assert "generation 2 is ready" in found.notes[-1]
    row = found.candidates[-1]
    assert (row.name, row.verdict) == (ENCODER, "recommended")
    assert row.milliseconds is not None
    judged = mistaken.judgements.list()
    train, test = ({one.query for one in in_part(judged, part)} for part in Part)
    assert test < set(measured)
    assert not set(measured) & set(learned)
    assert set(measured) | set(learned) == train | test
    assert 0.1 < len(set(measured) - test) / len(train) < 0.4
    assert mistaken.search(judged[0].query, 1)[0].lineage.generation == 1
    assert mistaken.promote(margin=0.9) == 2


@pytest.mark.long
def test_an_encoder_that_answers_no_better_is_dropped(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    encoder = Translating(name="tuned")
    encoder.letters = 3
    found, _, _ = tried_with(mistaken, encoder, monkeypatch)
    by_name = {one.name: one for one in found.candidates}
    assert by_name[ENCODER].verdict == "no significant gain"
    assert found.recommended in ("query adapter", "adapter and weight")
    assert found.applied
    assert [row.number for row in mistaken.generations()] == [1]


@pytest.mark.long
def test_a_ready_generation_that_was_there_before_is_not_dropped(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(mistaken, 60)
    encoder = Translating(name="tuned")
    encoder.letters = 3
    assert mistaken.rebuild(encoder).generation == 2  # which the one of the training resumes
    found, _, _ = tried_with(mistaken, encoder, monkeypatch)
    assert found.recommended != ENCODER
    assert [row.number for row in mistaken.generations()] == [1, 2]


def test_a_generation_that_was_promoted_meanwhile_is_not_dropped(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improving, "_trials", lambda *_: [])
    judge(mistaken, 60)
    encoder = Translating(name="tuned")
    encoder.letters = 3

    def trained(_: Sequence[Judgement], __: Sequence[str]) -> TrainedEncoder:
        found = TrainedEncoder(mistaken.snapshot(mistaken.rebuild(encoder).generation), encoder)
        mistaken.promote(2, gate=False)
        return found

    assert mistaken.improve(trained=trained).recommended == KEEP
    assert mistaken.snapshot().generation.number == 2


def test_gains_are_compared_on_queries_that_the_encoder_was_not_trained_on(
    mistaken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trials(live: Any, train: Any, *_: object) -> list[Any]:
        base = live.figures(train, live.adapted(train.vectors), None)
        held_out = improving._held_out(train).judged
        gains = np.array([0.01 if query in held_out else 2.0 for query in train.judged])
        words = weight_of_words(live.snapshot)
        return [improving._Trial("weight of words", words, None, None, train.vectors, base + gains)]

    monkeypatch.setattr(improving, "_trials", trials)
    judge(mistaken, 60)
    found, _, measured = tried_with(mistaken, Translating(name="tuned"), monkeypatch)
    by_name = {one.name: one for one in found.candidates}
    learned = by_name["weight of words"].learned, by_name[ENCODER].learned
    assert learned[0] > 1.0 > learned[1] > 0.01  # type: ignore[operator]
    assert by_name["weight of words"].verdict == "gains less"
    assert found.recommended == ENCODER
    held_out = len(set(measured) - {one.query for one in in_part(mistaken.judgements.list(), Part.TEST)})
    assert found.notes[-2] == Naming("gains", f"{held_out} queries")
