"""What pages say where nothing can be found, or changed: notes, errors, and pages that are closed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from words_encoder import WordsEncoder

from nearsay.app.ui.controls import as_note
from nearsay.app.ui.settings import Settings
from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.plans.plan import Plan


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page only reads."""
    for name, value in Settings(read_only=True).to_environment().items():
        monkeypatch.setenv(name, value)


_COMMANDS = (
    ("3 passages wait. Unless an add is running, finish it: nearsay index rebuild a.b", "3 passages wait."),
    ("no index at 0.5; build it anew: nearsay index rebuild x --encoder y, then promote", "no index at 0.5;"),
    ("'x' waits. Remove it: nearsay documents remove c. Then: nearsay index rebuild c", "'x' waits."),
)


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize(("said", "left"), _COMMANDS)
def test_a_command_is_left_out_for_who_may_only_read(said: str, left: str) -> None:
    assert as_note(said) == left[0].upper() + left[1:]


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize(
    "said",
    [
        "There are 2. Ask for more",
        "Make them: nearsay explore clusters x",  # nothing else would be left
        "This page only reads. Who started it can allow changes: nearsay ui without --read-only",
    ],
)
def test_everything_else_is_said_to_who_may_only_read(said: str) -> None:
    assert as_note(said) == said


_AT = "on the page Collections, under"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (_COMMANDS[0][0], f"3 passages wait. Unless an add is running, finish it {_AT} Generations"),
        (_COMMANDS[1][0], f"No index at 0.5; build it anew {_AT} Generations, then promote"),
        (
            "'x' waits. Remove it: nearsay documents remove c --id x. Then embed: nearsay index rebuild c",
            f"'x' waits. Remove it {_AT} Documents. Then embed {_AT} Generations",
        ),
        (
            "Judge more: nearsay judgements next c --json Or promote it: nearsay index promote c --force",
            f"Judge more on the page Judge. Or promote it {_AT} Generations",
        ),
        (
            "Put them in: nearsay explore clusters c --assign",
            "Put them in on the page Explore, under Clusters",
        ),
        (
            "The kept map has the seed 0. Lay it out anew with 5: nearsay explore map c --seed 5 --replace",
            "The kept map has the seed 0. Lay it out anew with 5 on the page Explore, under Map",
        ),
        (
            "9 pairs. Raise the threshold, or look at a part: nearsay explore duplicates c --where FILTER",
            "9 pairs. Raise the threshold",
        ),
        (
            "Remove it: nearsay documents remove c --id 'Report, final.pdf'. Then look again",
            f"Remove it {_AT} Documents. Then look again",
        ),
        (
            "Embed it anew: nearsay index rebuild c --encoder x, then nearsay index promote c",
            f"Embed it anew {_AT} Generations, then promote {_AT} Generations",
        ),
        (
            "Build it: nearsay index optimize c --newer --cluster ADDRESS",
            "Build it: nearsay index optimize c --newer --cluster ADDRESS",
        ),
        ("Hard ones: nearsay train negatives c", "Hard ones: nearsay train negatives c"),  # on no page
    ],
)
def test_who_may_change_things_is_told_the_page_that_does_it(said: str, told: str) -> None:
    assert as_note(said) == told


def _broken(*_: object, **__: object) -> Iterator[object]:
    raise BadInputError("the encoder broke. Mend it")
    yield


@pytest.fixture
def waiting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A library whose collection 'notes' has a document that waits for its vector."""

    with Library.open(settings.library, load_encoder=lambda _: WordsEncoder()) as library:
        notes = library.collection("notes")
        notes.add_rows([{"id": "first", "text": "a cat sat"}])
        monkeypatch.setattr(WordsEncoder, "stream", _broken)
        with pytest.raises(BadInputError, match="broke"):
            notes.add_rows([{"id": "late", "text": "a zebra"}])
    return settings


@pytest.mark.parametrize("read_only", [True, False])
def test_what_waits_is_told_with_a_remedy_for_who_can_use_it(
    page: Callable[..., AppTest], waiting: Settings, read_only: bool
) -> None:
    chosen = replace(waiting, read_only=read_only)
    app = page("search", settings=chosen, state={"chosen_collection": "notes"}, q="zebra", mode="lexical")
    (said,) = [each.value for each in app.info if "no vector yet" in each.value]
    assert ("under Generations" in said) is not read_only


def test_words_find_a_document_that_waits_for_its_vector(
    page: Callable[..., AppTest], waiting: Settings
) -> None:
    app = page(
        "collections",
        settings=waiting,
        state={"chosen_collection": "notes"},
        see="Documents",
        docs_find="zebra",
    )
    assert app.dataframe[0].value["id"].tolist() == ["late"]


@pytest.mark.parametrize("path", ["judge", "jobs", "training"])
def test_a_link_to_a_page_for_changes_says_that_it_is_closed(
    whole_page: Callable[..., AppTest], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import streamlit as st

    found = {}
    usual = st.navigation

    def chosen(pages: list["st.Page"], **options: object) -> "st.Page":
        usual(pages, **options)
        found[path] = next(each for each in pages if each.url_path == path)
        return found[path]

    monkeypatch.setattr(st, "navigation", chosen)
    monkeypatch.setattr(type(st.Page(lambda: None, title="x")), "run", lambda page: page._page())
    app = whole_page(read_only=True)
    assert app.title[0].value == path.capitalize()
    assert f"The page {path.capitalize()} makes changes, and this server is read-only" in app.info[0].value
    assert not app.button


@pytest.mark.parametrize("read_only", [True, False])
def test_how_to_compare_with_another_encoder_is_for_who_can_make_one(
    page: Callable[..., AppTest], settings: Settings, read_only: bool
) -> None:
    app = page("compare", settings=replace(settings, read_only=read_only))
    assert any("index rebuild" in code.value for code in app.code) is not read_only


@pytest.mark.parametrize("read_only", [True, False])
def test_an_index_that_finds_too_little_is_told_with_a_remedy_for_who_can_use_it(
    page: Callable[..., AppTest], settings: Settings, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    monkeypatch.setattr(Plan, "warning", lambda *_: "no longer holds. Choose anew: nearsay index tune x")
    app = page("collections", settings=replace(settings, read_only=read_only), see="Generations")
    (said,) = [each.value for each in app.warning if "no longer holds" in each.value]
    assert ("under Generations" in said) is not read_only
    assert "nearsay" not in said


def _everything(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.info, app.success, app.error, app.warning)
    return "\n".join(element.value for kind in kinds for element in kind).replace("\\", "")


_PAGES = [
    ("search", {"q": "rain"}),
    ("compare", {"q": "rain"}),
    ("judge", {}),
    *(("explore", {"view": view}) for view in ("map", "clusters", "duplicates", "time", "unusual")),
]


@pytest.mark.parametrize(("path", "query"), _PAGES)
def test_a_collection_in_which_nothing_can_be_found_says_why(
    page: Callable[..., AppTest],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    query: dict[str, str],
) -> None:
    with Library.open(settings.library, load_encoder=lambda _: WordsEncoder()) as library:
        notes = library.collection("notes")
        notes.add_rows([{"id": "first", "text": "a cat sat"}])
        notes.remove(["first"])
        app = page(path, state={"chosen_collection": "notes"}, **query)
        assert "collection is empty" in _everything(app)
        assert not app.success
        monkeypatch.setattr(WordsEncoder, "stream", _broken)
        with pytest.raises(BadInputError, match="broke"):
            notes.add_rows([{"id": "late", "text": "a zebra"}, {"id": "later", "text": "a dog"}])
    app = page(path, state={"chosen_collection": "notes"}, **query)
    assert "2 passages have no vector yet" in _everything(app)
    assert not app.success
