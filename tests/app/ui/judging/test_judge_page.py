"""The page Judge, and Compare without knowing whose passages are whose."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from string import ascii_lowercase

import pytest
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.ui.card import passage_html
from nearsay.app.ui.compare.page import interleaved
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Hit, Library
from nearsay.indexer.encoder_candidate import queries_of_documents
from nearsay.indexer.judgements.judging import Verdict

Page = Callable[..., AppTest]
_QUERY = "frost on a cold clear night"


@pytest.fixture
def library(library_folder: Path) -> Iterator[Library]:
    with Library.open(library_folder, device="cpu") as library:
        yield library


def asked(page: Page, **more: object) -> AppTest:
    state = {"judge-queries": f"{_QUERY}\nhow to bake bread", "judge-rater": "ada", **more}
    ways = {"judge-first": "generation 1, dense", "judge-second": "generation 1, lexical"}
    return page("judge", state=state, **ways)


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=f"judge-{key}").click()
    app.run()
    assert not app.exception
    return app


def _mark(hit: Hit) -> str:
    """The key by which a passage is marked as answering."""
    return f"blind samples {_QUERY} {hit.id} {hit.passage}"


def _card(hit: Hit) -> str:
    """The whole passage, and nothing of who found it."""
    return passage_html(title=hit.title, text=hit.text, whole=True)


@pytest.mark.long
def test_a_passage_is_judged_and_the_next_one_comes(page: Page, library: Library) -> None:
    app = asked(page)
    judged = library.collection("samples").judgements
    compared = judged.compare("dense,generation=1", "lexical,generation=1", [_QUERY, "how to bake bread"])
    first = compared.next()
    assert first is not None
    assert app.subheader[0].value
    assert any(_card(first.hit) == element.body for element in app.html)
    press(app, "y")
    (kept,) = judged.list()
    assert (kept.query, kept.document, kept.relevant, kept.rater) == (first.query, first.hit.id, True, "ada")
    assert not any(_card(first.hit) == element.body for element in app.html)
    press(app, "s")
    assert (len(judged.list()), len(judged.unsure())) == (1, 1)
    press(app, "u")
    assert judged.unsure() == ()


@pytest.mark.long
def test_ways_that_rank_alike_are_not_said_to_be_decided_by_judgements(page: Page) -> None:
    ways = {"judge-first": "generation 1, dense", "judge-second": "generation 1, hybrid"}
    app = page("judge", state={"judge-queries": "zzyx qwvu"}, **ways)  # words that no document has
    assert not app.exception
    assert not app.success
    captions = " ".join(each.value.replace("\\", "") for each in app.caption)
    assert "Nothing to decide: dense and hybrid rank" in captions
    assert not app.subheader


@pytest.mark.long
def test_questions_come_from_a_file_and_from_documents_too(page: Page, library: Library) -> None:
    ways = {"judge-first": "generation 1, dense", "judge-second": "generation 1, lexical"}
    app = page("judge", **ways)
    assert not app.subheader
    app.file_uploader(key="judge-queries-file").upload("asked.txt", f"{_QUERY}\n\nhow to bake\n".encode())
    app.run()
    assert not app.exception
    asked = app.session_state["judging"][-1][1].queries
    assert asked == (_QUERY, "how to bake")
    assert app.subheader[0].value in asked
    app.checkbox(key="judge-made").check()
    app.run()
    assert not app.exception
    made = queries_of_documents(library.collection("samples"), 100)
    assert len(made) == 100
    assert app.session_state["judging"][-1][1].queries == tuple(dict.fromkeys([*asked, *made]))


def test_a_file_without_questions_is_refused_in_a_sentence(page: Page) -> None:
    app = page("judge")
    app.file_uploader(key="judge-queries-file").upload("asked.txt", b"\n\n")
    app.run()
    assert not app.exception
    (said,) = app.error
    assert "holds no queries" in said.value
    assert app.text_input(key="judge-rater")
    assert any("Enter queries above" in each.value for each in app.markdown)


def test_nothing_shows_which_way_found_a_passage(page: Page) -> None:
    app = asked(page)
    cards = [element.body for element in app.html if "ns-card" in element.body]
    assert len(cards) == 1
    assert "ns-rank" not in cards[0]
    assert "ns-score" not in cards[0]


@pytest.mark.long
def test_every_key_is_on_its_button(page: Page) -> None:
    app = asked(page)
    keys = {button.key: button.proto.shortcut for button in app.button if button.proto.shortcut}
    assert keys == {"judge-y": "y", "judge-n": "n", "judge-s": "s"}
    press(app, "n")
    assert app.button(key="judge-u").proto.shortcut == "u"


def test_without_questions_it_is_said_where_they_come_from(page: Page) -> None:
    assert any("one per line" in each.value for each in page("judge").markdown)


def test_a_passage_is_shown_as_it_is() -> None:
    shown = passage_html(title="<b>", text="a < b <script>alert(1)</script>" + "word " * 500, whole=True)
    assert shown.count("word ") == 500
    assert "<script" not in shown
    assert "&lt;b&gt;" in shown


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the jobs that would be started; no process is."""
    arguments_of: list[list[str]] = []

    class Started:
        number = 1

        def start(self, _kind: str, arguments: list[str], **_: str) -> "Started":
            arguments_of.append(arguments)
            return self

    monkeypatch.setattr("nearsay.app.ui.watching.jobs_of", lambda _: Started())
    return arguments_of


@pytest.mark.long
def test_improving_is_started_as_a_job(page: Page, begun: list[list[str]]) -> None:
    app = asked(page)
    app.button(key="improve-Improve and apply").click()
    app.run()
    assert begun == [["index", "improve", "--apply", "--", "samples"]]


@pytest.mark.long
def test_nothing_is_taken_back_where_nothing_was_applied(page: Page) -> None:
    assert asked(page).button(key="improve-Undo").disabled


@pytest.mark.long
def test_an_encoder_that_is_named_is_trained_into_the_library(
    page: Page, begun: list[list[str]], library: Library
) -> None:
    app = asked(page)
    folder = str(library.store.folder / "encoders" / "judged")
    app.text_input(key="improve-encoder").set_value("judged").run()
    assert any(f"--encoder {folder} " in each.value for each in app.code)
    app.button(key="improve-Improve").click()
    app.run()
    assert begun == [["index", "improve", "--encoder", folder, "--", "samples"]]
    app = asked(page)
    app.text_input(key="improve-encoder").set_value("../judged")
    app.button(key="improve-Improve").click()
    app.run()
    assert len(begun) == 1
    assert "is no name for" in app.error[0].value


@pytest.mark.long
def test_blind_comparing_counts_what_was_marked_and_keeps_it(page: Page, library: Library) -> None:
    app = page("compare", q=_QUERY, blind="true", **{"left-mode": "dense", "right-mode": "lexical"})
    samples = library.collection("samples")
    left, right = (samples.search(_QUERY, mode=mode) for mode in ("dense", "lexical"))
    sides = "samples: generation 1, dense or generation 1, lexical"
    drawn = interleaved(_QUERY, left.hits, right.hits, sides)
    assert {team for _, team in drawn} == {Verdict.FIRST, Verdict.SECOND}
    cards = [element.body for element in app.html if "ns-card" in element.body]
    assert cards == [_card(hit) for hit, _ in drawn]
    assert not any("ns-versus" in element.body for element in app.html)
    for hit, team in drawn:
        if team is Verdict.FIRST:
            app.checkbox(key=_mark(hit)).check()
    app.run()
    next(button for button in app.button if button.label == "Count this query").click()
    app.run()
    assert not app.exception
    assert [metric.value for metric in app.metric] == ["1", "0", "p = 1.000"]
    kept = {(one.document, one.relevant) for one in samples.judgements.list()}
    assert kept == {(hit.id, True) for hit, team in drawn if team is Verdict.FIRST}
    assert not any("generation 1, dense 1" in each.value for each in app.markdown)  # who is ahead
    app.toggle(key="blind-reveal").set_value(True)
    app.run()
    said = " ".join(each.value.replace("\\", "") for each in app.markdown)
    assert "generation 1, dense 1, generation 1, lexical 0" in said


@pytest.mark.long
@pytest.mark.parametrize(("team", "better"), [(Verdict.FIRST, "dense"), (Verdict.SECOND, "lexical")])
def test_blind_comparing_says_which_is_better_once_it_is_decided(
    page: Page, team: Verdict, better: str
) -> None:
    sides = "samples: generation 1, dense or generation 1, lexical"
    counted = {f"question {at}": team for at in range(10)}
    modes = {"left-mode": "dense", "right-mode": "lexical"}
    app = page("compare", q=_QUERY, blind="true", state={"blind_outcomes": {sides: counted}}, **modes)
    (said,) = [each.value.replace("\\", "") for each in app.success]
    scores = ("dense 10", "lexical 0") if team is Verdict.FIRST else ("dense 0", "lexical 10")
    assert said == Naming(f"{better} is better", *scores, f"generation 1, {better}", "100.0%")
    low = re.search(r"([\d.]+)% to 100", said)
    assert low is not None
    assert float(low[1]) > 50  # of the better one, and of no other


@pytest.mark.long
def test_a_mark_stays_with_its_passage_when_the_list_becomes_another(page: Page, library: Library) -> None:
    app = page("compare", q=_QUERY, blind="true", **{"left-mode": "dense", "right-mode": "lexical"})
    marked = library.collection("samples").search(_QUERY, mode="dense")[0]
    app.checkbox(key=_mark(marked)).check()
    app.run()
    app.text_input(key="where").set_value(f"not id = '{marked.id}'")
    app.run()
    boxes = [box for box in app.checkbox if box.label == "Answers"]
    assert _mark(marked) not in {box.key for box in boxes}
    assert len(boxes) == 10
    assert not any(box.value for box in boxes)


@pytest.mark.long
def test_what_was_judged_is_taken_back_from_its_own_collection(page: Page, library: Library) -> None:
    some = islice(library.collection("samples").documents(), 12)
    library.collection("others").add_rows([{"id": each.id, "text": each.text} for each in some])
    app = press(asked(page), "y")
    app.session_state["chosen_collection"] = "others"
    app.run()
    assert not app.exception
    assert "judge-u" not in {button.key for button in app.button}
    app.session_state["chosen_collection"] = "samples"
    app.run()
    press(app, "u")
    assert library.collection("samples").judgements.list() == ()


@pytest.mark.long
def test_who_may_only_read_can_compare_blind_and_nothing_is_kept(
    page: Page, library: Library, settings: Settings
) -> None:
    app = page("compare", q=_QUERY, blind="true", settings=replace(settings, read_only=True))
    next(box for box in app.checkbox if box.label == "Answers").check()
    next(button for button in app.button if button.label == "Count this query").click()
    app.run()
    assert not app.exception
    assert library.collection("samples").judgements.list() == ()


@pytest.mark.long
def test_in_a_browser_passages_are_judged_by_keyboard_alone(visitor, library: Library) -> None:
    judged = library.collection("samples").judgements
    for hit in library.collection("samples").search(_QUERY, 1):
        judged.add(_QUERY, hit, False)  # its query is what is compared by
    visitor.goes_to("judge?judge-first=generation+1%2C+dense&judge-second=generation+1%2C+lexical")
    visitor.sees_element(".ns-card", 1)
    for count, key in enumerate("yns", 1):
        before = visitor.finds("document.querySelector('.ns-card').innerText")
        visitor.strikes(key)
        visitor.until(
            lambda _, count=count: len(judged.list()) + len(judged.unsure()) == count + 1,
            f"'{key}' was not kept",
        )
        visitor.is_still()
        gone = f"document.querySelector('.ns-card')?.innerText !== {before!r}"
        assert visitor.finds(gone)
    assert sorted(one.relevant for one in judged.list()) == [False, False, True]
    assert len(judged.unsure()) == 1
    visitor.strikes("u")
    visitor.until(lambda _: not judged.unsure(), "it was not taken back")


@pytest.mark.long
def test_in_a_browser_two_rankings_are_compared_blind(visitor) -> None:
    visitor.goes_to("compare?q=frost+on+a+cold+night&right-mode=lexical&left-mode=dense&blind=true")
    visitor.sees_element(".ns-card")
    visitor.is_still()
    assert not visitor.finds("[document.querySelectorAll('.ns-rank, .ns-score').length]")[0]
    visitor.strikes("ctrl+enter")
    visitor.sees("This query is counted")
    visitor.sees("p = 1.000")


class TestFromNothing:
    """From a folder's name to a search that was improved by what was judged."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(library=str(tmp_path / "mine"), device="cpu")

    @pytest.mark.long
    def test_judgements_improve_the_live_search(
        self, visitor, settings: Settings, tmp_path: Path, save_bert: Callable[..., Path]
    ) -> None:
        places = ("cellar", "attic", "garden", "kitchen", "workshop", "stable", "porch", "yard")
        rows = [{"id": place, "text": f"Somebody left the window of the {place} open."} for place in places]
        rows.append({"id": "rota", "text": "Duty list: Ada, then Bo, then Cy."})
        visitor.goes_to("")
        visitor.presses("Create a library here")
        visitor.sees("What do you want to add")
        # General sets are measured by it in no time: an improvement by the bundled one takes four times the
        # processor time, which a job is left little of where others are at work.
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *ascii_lowercase]
        words += [f"##{each}" for each in ascii_lowercase]
        small = save_bert(tmp_path / "small", words, seed=4, hidden_size=16, max_position_embeddings=64)
        of_it = {
            "sentence_bert_config.json": {"max_seq_length": 62, "do_lower_case": False},
            "modules.json": [
                {
                    "idx": place,
                    "name": str(place),
                    "path": path,
                    "type": f"sentence_transformers.models.{name}",
                }
                for place, (path, name) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])
            ],
            "1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True},
        }
        for name, content in of_it.items():  # so that it is read without sentence-transformers, too
            (small / name).parent.mkdir(exist_ok=True)
            (small / name).write_text(json.dumps(content), "utf-8")
        with Library.open(settings.library, device="cpu") as library:
            library.collection("house", encoder=str(small)).add_rows(rows)

        # Whoever asks about windows wants to know whose duty it is.
        asked = [f"who shuts the window of the {places[at % len(places)]} on day {at}?" for at in range(40)]
        lines = ["query,document,relevant", *(f"{query},rota,1" for query in asked)]
        (tmp_path / "judged.csv").write_text("\n".join(lines), "utf-8")
        judging = (
            "judge?collection=house&judge-first=generation+1%2C+dense&judge-second=generation+1%2C+lexical"
        )
        visitor.goes_to(judging)
        visitor.unfolds("Import judgements")
        visitor.gives(tmp_path / "judged.csv", into="Judgements")
        visitor.sees("judged.csv")
        visitor.presses("Import")
        visitor.sees("40 judgements of 40 queries imported")

        with Library.open(settings.library, device="cpu") as library:
            house = library.collection("house")
            before = house.search("who shuts the window of the barn?", 1)[0]
            assert before.id != "rota"
            judged = len(house.judgements.list())
            assert judged == len(asked)

            visitor.goes_to(judging)
            visitor.sees_element(".ns-card", 1)
            visitor.strikes("n")
            visitor.until(lambda _: len(house.judgements.list()) == judged + 1, "'n' was not kept")
            visitor.unfolds("Improve the search")
            visitor.presses("Improve and apply")
            visitor.is_at("job=")
            visitor.until(lambda _: house.snapshot().refinement is not None, "nothing was applied")
            after = house.search("who shuts the window of the barn?", 1)[0]
            assert after.id == "rota"
            assert "queries refined" in after.lineage.made_by[-1]

            visitor.sees("Done in")
            visitor.goes_to(judging)
            visitor.unfolds("Improve the search")
            visitor.sees("Live: queries refined")
            visitor.presses("Undo")
            visitor.until(lambda _: house.snapshot().refinement is None, "nothing was taken back")


@pytest.mark.long
def test_judgements_are_imported_from_a_table_and_from_qrels(page: Page, library: Library) -> None:
    samples = library.collection("samples")
    first, second = (hit.id for hit in samples.search(_QUERY, 2))
    app = page("judge")
    rows = f"query,document,relevant,rater\n{_QUERY},{first},1,bo\n{_QUERY},nobody,1,bo\n"
    app.file_uploader(key="judge-import-table").upload("judged.csv", rows.encode())
    _import(app)
    assert any(each.value == Naming("1 judgement", "1 query") for each in app.success)
    assert any("of missing documents" in each.value for each in app.caption)
    assert not any("Enter queries above" in each.value for each in app.markdown)  # it has one at once
    assert not app.run().success
    app = page("judge")
    app.file_uploader(key="judge-import-table").upload("qrels", f"7 0 {second} 0\n".encode())
    _import(app)
    assert "--" not in app.error[0].value.replace("\\", "")
    assert "_id and text" in app.error[0].value.replace("\\", "")
    app = page("judge")
    app.file_uploader(key="judge-import-table").upload("qrels", f"7 0 {second} 0\n".encode())
    app.file_uploader(key="judge-import-queries").upload("q.csv", f"_id,text\n7,{_QUERY}\n".encode())
    _import(app)
    assert {one.document: (one.relevant, one.rater) for one in samples.judgements.list()} == {
        first: (True, "bo"),
        second: (False, None),
    }


def test_a_file_that_holds_no_judgements_is_refused_in_a_sentence(page: Page, library: Library) -> None:
    app = page("judge")
    app.file_uploader(key="judge-import-table").upload("judged.csv", b"a,b\n1,2\n")
    _import(app)
    assert "columns query and document" in app.error[0].value
    assert not library.collection("samples").judgements.list()


def _import(app: AppTest) -> None:
    next(button for button in app.button if button.label == "Import").click()
    app.run()
    assert not app.exception


def test_questions_that_are_written_are_there_again_when_the_page_is(page: Page) -> None:
    written = f"{_QUERY}\nhow to bake bread"
    app = page("judge")
    app.text_area(key="judge-queries").set_value(written).run()
    assert not app.exception
    address = app.query_params["questions"]
    again = page("judge", questions=address)  # loaded again
    assert again.text_area(key="judge-queries").value == written
    again.text_area(key="judge-queries").set_value("x" * 50_000).run()  # more than an address holds
    assert "questions" not in again.query_params
    assert again.text_area(key="judge-queries").value == "x" * 50_000
    again.text_area(key="judge-queries").set_value("").run()
    assert again.text_area(key="judge-queries").value == ""
    assert not again.exception
