"""By meaning, by words, by both; judged once more, explained, several at once."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Fusion, Library, SearchMode
from nearsay.indexer.catalogue.tables import collections as collection_table
from nearsay.indexer.catalogue.tables import passages as passage_table
from nearsay.indexer.filters import selection
from nearsay.indexer.query import lexical, ranking
from nearsay.indexer.query import search as search_module
from nearsay.indexer.query.lexical import lexical_candidates
from nearsay.indexer.query.ranking import FLOOR, WEIGHT
from nearsay.indexer.vectors.errors import UnknownCollectionError

# To the words encoder "fox" and "hen" are the same: a word of three letters.
ROWS: list[dict[str, object]] = [
    {"id": "fox", "text": "one fox", "kind": "wild"},
    {"id": "hen", "text": "one hen", "kind": "tame"},
    {"id": "hens", "text": "hens hens", "kind": "tame"},
    {"id": "long", "text": "mmmmmmm nnnnnnn", "kind": "none"},
    {"id": "other", "text": "ooooooo ppppppp", "kind": "none"},
]


@pytest.fixture
def yard(library: Library) -> Collection:
    collection = library.collection("yard")
    collection.add_rows(ROWS)
    return collection


def ids(hits: Sequence[object]) -> list[str]:
    return [hit.id for hit in hits]


def test_dense_search_goes_by_vectors_alone(yard: Collection) -> None:
    hits = yard.search("hen", 2, mode="dense")
    assert ids(hits) == ["fox", "hen"]
    assert hits[0].score == hits[0].scores.dense == pytest.approx(1.0)
    assert (hits[0].scores.lexical, hits[0].scores.fused, hits[0].scores.rerank) == (None, None, None)


def test_lexical_search_goes_by_words_alone(yard: Collection) -> None:
    hits = yard.search("hen", 5, mode=SearchMode.LEXICAL)
    assert ids(hits) == ["hens", "hen"]
    assert hits[0].score == hits[0].scores.lexical
    assert hits[0].scores.dense is None
    assert hits.notes == (Naming("2 of the 5", "only 2 passages", "words"),)


def test_hybrid_search_finds_by_meaning_and_prefers_the_words(yard: Collection) -> None:
    assert ids(yard.search("hen", 2)) == ["hen", "fox"]
    assert ids(yard.search("hen", 5))[2:] == ["hens", "long", "other"]


@pytest.mark.parametrize("by_document", [False, True])
@pytest.mark.parametrize("fusion", Fusion)
def test_pages_are_the_parts_of_one_ranking(
    library: Library, monkeypatch: pytest.MonkeyPatch, fusion: Fusion, *, by_document: bool
) -> None:
    for module in (ranking, search_module):
        monkeypatch.setattr(module, "DEPTH", 4)
    collection = library.collection("many", chunking=Chunking.parse("sentences"))
    random = Random(0)  # noqa: S311 - the same every time
    rows = [{"id": "big", "text": "Hen fox. " * 12}]
    rows += [
        {"id": str(n), "text": " ".join(random.choices(("hen", "fox", "one", "hens", "ooooo"), k=4))}
        for n in range(40)
    ]
    collection.add_rows(rows)
    whole = collection.search("hen fox", 60, fusion=fusion, by_document=by_document)
    assert len(whole) == (41 if by_document else 52)
    assert all(one.score >= other.score for one, other in pairwise(whole))
    parts = [
        collection.search("hen fox", 3, fusion=fusion, by_document=by_document, offset=offset)
        for offset in range(0, 60, 3)
    ]
    assert [hit for part in parts for hit in part] == list(whole)


def test_the_fused_score_is_the_cosine_and_what_the_words_add(yard: Collection) -> None:
    fox, hen = sorted(yard.search("hen", 2, mode="hybrid"), key=lambda hit: hit.id)
    assert fox.score == pytest.approx(fox.scores.dense)
    snapshot = yard.snapshot()
    with yard.library.store.database.reading() as connection:
        full = lexical_candidates(connection, snapshot.collection.id, "hen").full_score
    assert hen.scores.word_share == pytest.approx(hen.scores.lexical / full)
    added = WEIGHT * (1 - snapshot.chance) * (hen.scores.word_share - FLOOR) / (1 - FLOOR)
    assert added > 0.1
    assert hen.score == hen.scores.fused == pytest.approx(hen.scores.dense + added)


def test_what_two_passages_share_by_chance_is_measured_on_the_living(yard: Collection) -> None:
    assert yard.remove(["hen"]) is not None
    snapshot = yard.snapshot()
    living = snapshot.vectors.rows(snapshot.vectors.positions(np.flatnonzero(snapshot.alive)))
    cosines = (living @ living.T)[~np.eye(len(living), dtype=bool)]
    assert snapshot.chance == pytest.approx(cosines.mean(), abs=1e-5)
    before = [(hit.id, hit.score) for hit in yard.search("a hen", k=9)]
    yard.compact()
    assert yard.snapshot().chance == snapshot.chance
    assert [(hit.id, hit.score) for hit in yard.search("a hen", k=9)] == before


def test_one_passage_shares_nothing_by_chance(library: Library) -> None:
    lone = library.collection("lone")
    lone.add_rows([{"id": "one", "text": "a hen"}])
    assert lone.snapshot().chance == 0.0


def test_a_word_that_most_passages_have_adds_nothing(library: Library) -> None:
    collection = library.collection("common")
    collection.add_rows([{"id": f"p{i}", "text": f"the fox {'o' * (i % 7 + 1)}"} for i in range(40)])
    scores = [hit.scores for hit in collection.search("the", 5)]
    assert len(scores) == 5
    assert all(one.fused == one.dense for one in scores)
    assert all(one.word_share is None or one.word_share < FLOOR for one in scores)


def test_reciprocal_ranks_can_be_had(yard: Collection) -> None:
    best = yard.search("hen", 1, fusion="rrf")[0]
    assert best.id == "hens"
    assert best.score == pytest.approx(1 / 61 + 1 / 63)  # first by words, third by meaning


def test_a_passage_that_has_no_vector_yet_is_found_in_no_mode(yard: Collection) -> None:
    with yard._store.database.writing() as connection:
        connection.execute(passage_table.update().where(passage_table.c.number == 2).values(number=50))
        connection.exec_driver_sql(
            "INSERT INTO lexical_1(lexical_1, rowid, words) VALUES ('delete', 2, 'one hen')"
        )
        connection.exec_driver_sql("INSERT INTO lexical_1(rowid, words) VALUES (50, 'one hen')")
        connection.execute(collection_table.update().values(version=collection_table.c.version + 1))
    for mode in SearchMode:
        hits = yard.search("hen", 5, mode=mode)
        assert len(hits) > 0
        assert "hen" not in ids(hits)


@pytest.mark.parametrize("mode", list(SearchMode))
def test_a_filter_holds_in_every_mode(yard: Collection, mode: SearchMode) -> None:
    assert ids(yard.search("hen", 1, mode=mode, where="kind = 'tame'")) in (["hen"], ["hens"])
    assert "hen" not in ids(yard.search("hen", 5, mode=mode, where="kind = 'wild'"))


@pytest.mark.parametrize("mode", list(SearchMode))
def test_what_is_removed_is_gone_in_every_mode(yard: Collection, mode: SearchMode) -> None:
    assert "hen" in ids(yard.search("one hen", 3, mode=mode))
    yard.remove(["hen"])
    assert "hen" not in ids(yard.search("one hen", 5, mode=mode))


def test_by_document_each_comes_once_by_words_too(library: Library) -> None:
    collection = library.collection("books", chunking="sentences")
    collection.add_rows(
        [{"id": "a", "text": "Hens lay. Hens sit. Hens eat."}, {"id": "b", "text": "Hens fly."}]
    )
    assert sorted(ids(collection.search("hen", 3, mode="lexical", by_document=True))) == ["a", "b"]


def test_lexical_search_loads_no_encoder(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bare") / "library"
    with Library.open(folder, load_encoder=lambda _: WordsEncoder()) as library:
        library.collection("yard").add_rows(ROWS)

    def refuse(source: str) -> WordsEncoder:
        raise NearsayError(f"{source} was loaded")

    with Library.open(folder, load_encoder=refuse) as library:
        assert ids(library.collection("yard").search("fox", mode="lexical")) == ["fox"]
        with pytest.raises(NearsayError, match="was loaded"):
            library.collection("yard").search("fox")


@pytest.mark.parametrize(
    ("query", "where", "note"),
    [
        (
            "zebra",
            None,
            Naming("nothing found", "no passage", "word", "mode dense"),
        ),
        (
            "🙂",
            None,
            Naming("nothing found", "no passage", "word", "mode dense"),
        ),
        ("fox", "kind = 'tame'", Naming("nothing found", "no passage", "filter", "word")),
    ],
)
def test_words_that_find_nothing_are_told(
    yard: Collection, query: str, where: str | None, note: Naming
) -> None:
    hits = yard.search(query, mode="lexical", where=where)
    assert (len(hits), hits.notes) == (0, (note,))


@pytest.mark.parametrize(("option", "value"), [("mode", "sparse"), ("fusion", "sum")])
def test_an_unknown_choice_names_those_there_are(yard: Collection, option: str, value: str) -> None:
    with pytest.raises(BadInputError, match=f"^{option} .*'{value}'"):
        yard.search("hen", **{option: value})


class Shortest:
    """Prefers short passages; remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def scores(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        self.shown += pairs
        return np.array([-len(passage) for _, passage in pairs], dtype=np.float32)


def test_a_judge_ranks_the_candidates_anew(library: Library) -> None:
    collection = library.collection("notes")
    rows = [{"id": "long", "title": "A", "text": "fox fox"}, {"id": "short", "text": "bb"}]
    collection.add_rows(rows)
    judge = Shortest()
    hits = collection.search("fox", 1, rerank=judge)
    assert (ids(hits), hits[0].score, hits[0].scores.rerank) == (["short"], -2.0, -2.0)
    assert sorted(judge.shown) == [("fox", "A fox fox"), ("fox", "bb")]
    assert ids(collection.search("fox", 1)) == ["long"]


def test_a_judge_sees_fifty_candidates_or_k(library: Library) -> None:
    collection = library.collection("many")
    collection.add_rows([{"id": f"d{i}", "text": f"fox {'x' * (i + 1)}"} for i in range(70)])
    for k, seen in ((3, 50), (60, 60)):
        judge = Shortest()
        assert len(collection.search("fox", k, rerank=judge)) == k
        assert len(judge.shown) == seen


@pytest.mark.parametrize("k", [7, 10, 30])
def test_pages_of_what_a_judge_ranks_anew_show_each_candidate_once(library: Library, k: int) -> None:
    collection = library.collection("many")
    collection.add_rows([{"id": f"d{i}", "text": f"fox {'x' * (i + 1)}"} for i in range(120)])
    once = ids(collection.search("fox", 120, mode="dense"))
    seen: list[str] = []
    for offset in range(0, 120, k):
        judge = Shortest()
        hits = collection.search("fox", k, mode="dense", offset=offset, rerank=judge)
        assert [hit.scores.rerank for hit in hits] == [-len(hit.text) for hit in hits]
        assert len(judge.shown) <= 100  # pages reach into two fifties at most
        seen += ids(hits)
    assert [sorted(seen[at : at + 50]) for at in (0, 50, 100)] == [
        sorted(once[at : at + 50]) for at in (0, 50, 100)
    ]
    assert seen[:50] == ids(collection.search("fox", 50, mode="dense", rerank=Shortest()))
    judge = Shortest()
    assert (len(collection.search("fox", k, offset=120, rerank=judge)), judge.shown) == (0, [])


def test_several_queries_get_what_each_would_alone(yard: Collection) -> None:
    queries = ["hen", "one fox", "mmmmmmm", "zebra"]
    for mode in SearchMode:
        for where in (None, "kind in ('wild', 'tame')"):
            together = yard.search(queries, 3, mode=mode, where=where)
            for query, hits in zip(queries, together, strict=True):
                alone = yard.search(query, 3, mode=mode, where=where)
                assert (ids(hits), hits.notes) == (ids(alone), alone.notes)
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-6)
    assert yard.search([], 3) == []


def test_hits_say_why_they_matched_if_asked(yard: Collection) -> None:
    plain, told = yard.search("one hen", 1), yard.search("one hen", 1, explain=True)
    assert (plain[0].explanation, "explanation" in plain[0].to_json()) == (None, False)
    explanation = told[0].explanation
    assert explanation is not None
    assert explanation.matched == ("hen",)  # "one" is a function word
    assert explanation.score == told[0].scores.dense
    assert told[0].to_json()["explanation"]["matched"] == ("hen",)
    both = yard.search("mmmmmmm nnnnnnn", 1, explain=True)[0].explanation
    assert both is not None
    assert both.matched == ("mmmmmmm", "nnnnnnn")


def test_the_names_of_the_choices_are_their_values() -> None:
    assert (list(SearchMode), list(Fusion)) == (["dense", "lexical", "hybrid"], ["weighted", "rrf"])


def hens(library: Library) -> Collection:
    """150 passages as good by words as the last, which is the nearest."""
    collection = library.collection("hens")
    far = [{"id": f"d{i}", "text": "hen abc mmmmmmmmm", "kind": "far"} for i in range(150)]
    collection.add_rows([*far, {"id": "best", "text": "hen abc fox", "kind": "near"}])
    return collection


def test_the_first_hits_do_not_depend_on_how_many_are_asked_for(library: Library) -> None:
    collection = hens(library)
    many = collection.search("hen abc", 151)
    assert ids(many)[0] == "best"
    assert many[0].scores.lexical == pytest.approx(many[1].scores.lexical)
    for k in (1, 5, 100):
        few = collection.search("hen abc", k)
        assert [(hit.id, hit.score) for hit in few] == [(hit.id, hit.score) for hit in many[:k]]


def test_a_passage_far_down_both_rankings_is_found_where_both_together_make_it_the_best(
    library: Library,
) -> None:
    collection = library.collection("both")
    by_words = [{"id": f"w{i}", "text": "hen hen mmmmmmmmm ooooooooo"} for i in range(110)]
    by_vector = [{"id": f"v{i}", "text": "fox"} for i in range(110)]
    others = [{"id": f"o{i}", "text": "o" * (4 + i % 12)} for i in range(1000)]
    collection.add_rows([*by_words, *by_vector, *others, {"id": "both", "text": "hen hen cow mm"}])
    many = collection.search("hen", 221)
    assert ids(many)[0] == "both"
    assert ids(collection.search("hen", 1)) == ["both"]


def test_passages_with_commoner_words_alone_come_where_the_others_are_too_few(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_ENOUGH", 1)
    yard = library.collection("yard")
    both = [{"id": f"b{i}", "text": f"cow hen {'x ' * i}", "kind": str(i % 2)} for i in range(20)]
    yard.add_rows([*both, *({"id": f"h{i}", "text": "hen", "kind": str(i % 2)} for i in range(500))])
    assert {name[0] for name in ids(yard.search("cow hen", 1, mode="lexical"))} == {"b"}
    assert len(yard.search("cow hen", 20, mode="lexical")) == 20
    assert [name[0] for name in ids(yard.search("cow hen", 50, mode="lexical"))] == ["b"] * 20 + ["h"] * 30
    everything = yard.search("cow hen", 520, mode="lexical")
    assert [name[0] for name in ids(everything)] == ["b"] * 20 + ["h"] * 500
    assert everything.notes == ()
    each = yard.search("cow hen", 520, mode="lexical", by_document=True)
    assert ids(each) == ids(everything)
    assert len(yard.search("cow hen", 100, mode="lexical", where="kind = '1'")) == 100


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_more_than_a_hundred_hits_are_those_by_all_words(
    library: Library, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    yard = library.collection("yard")
    rare = [{"id": f"c{i}", "text": "cow mmmmmmmmm"} for i in range(150)]
    common = [{"id": f"h{i}", "text": f"hen pig goat {'ooooooooo ' * (i % 9)}"} for i in range(200)]
    yard.add_rows([*rare, *common, *({"id": f"o{i}", "text": "o" * (5 + i % 9)} for i in range(400))])
    wanted = {k: ids(yard.search("cow hen pig goat", k, mode=mode)) for k in (101, 300)}
    assert mode == "hybrid" or {name[0] for name in wanted[101]} == {"h"}
    monkeypatch.setattr(lexical, "_ENOUGH", 1)
    for k, names in wanted.items():
        assert ids(yard.search("cow hen pig goat", k, mode=mode)) == names


def test_a_document_by_id_is_looked_up(library: Library) -> None:
    yard = library.collection("yard")
    yard.add_rows(ROWS)
    plans: list[str] = []
    engine = library.store.database.engine

    def note(connection: sa.Connection, _: object, statement: str, given: Any, *__: object) -> None:
        if statement.startswith("SELECT documents.number, documents.id"):
            plan = connection.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            plans.extend(row[-1] for row in plan if " documents " in row[-1])

    sa.event.listen(engine, "before_cursor_execute", note)
    assert [document.id for document in yard.get(["hens"])] == ["hens"]
    assert [document.id for document in yard.get(["hens", "fox"])] == ["hens", "fox"]
    assert yard.update(["hens"], metadata={"kind": "bird"}) == 1
    sa.event.remove(engine, "before_cursor_execute", note)
    assert len(plans) == 3
    assert all("(collection_id=? AND id=?)" in plan or "PRIMARY KEY" in plan for plan in plans[:2])
    assert "number=?" in plans[2]


def test_a_filter_finds_what_the_budget_would_have_left_out(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = hens(library)
    monkeypatch.setattr(lexical_candidates, "__defaults__", (None, None, 50))
    for listed in (0, 20_000):
        monkeypatch.setattr(selection, "LISTED", listed)
        hits = collection.search("hen", 3, mode="lexical", where="kind = 'near'")
        assert ids(hits) == ["best"]
        assert hits.notes == (Naming("1 of the 3", "only 1 passage", "filter", "words"),)
    incomplete = collection.search("hen", 3, mode="lexical")
    many = "every word of the query is in very many passages"
    ranked = f"{many}: not all of them were ranked, but those added first. Add a rarer word, or search "
    assert incomplete.notes == (f"{ranked}by meaning (mode dense)",)
    counted = f"{many}: words count for some of them alone, those added first. Add a rarer word"
    assert collection.search("hen", 3).notes == (counted,)
    short = collection.search("hen", 60, mode="lexical")
    assert short.notes[0] == Naming("50 of the 60", "no other", "ranked")


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_a_collection_that_is_deleted_during_a_search_is_told(
    catalogue_url: str, tmp_path: Path, words: WordsEncoder, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = catalogue_url if catalogue_url.startswith("postgresql") else None
    with Library.open(tmp_path / "either", database=url, load_encoder=lambda _: words) as library:
        collection = library.collection("yard", encoder=words)
        collection.add_rows(ROWS)
        held = collection.snapshot()
        library.collection("yard").delete()
        monkeypatch.setattr(collection._snapshot, "serving", lambda _generation: held)
        with pytest.raises(UnknownCollectionError, match="'yard' was deleted"):
            collection.search("hen", mode=mode)
