"""The page Judge: one query and one passage at a time, by keyboard alone."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.app.ui.asked import is_empty
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.controls import pick, say_notes
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import kept
from nearsay.app.ui.page_link import open_page
from nearsay.app.ui.side import Ranking, Side, comparable, usual_sides
from nearsay.app.ui.uploads import safe_name
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command, start_job
from nearsay.data.quantity import counted
from nearsay.data.query_file import read_queries
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.encoders import Shelf, new_folder_for
from nearsay.indexer.judgements.judging import Difference, JudgedComparison, ToJudge, Verdict

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from nearsay.indexer.judgements.judgements import JudgementImport

_KEPT = "judging"  # in the session: what is compared, and its rankings
_DONE = "judged_last"  # in the session: what was judged last, and of which collection, to be taken back
_IMPORTED = "judge_imported"  # in the session: what was imported just now
_MADE = "judge_made_queries"  # in the session: questions made from documents
_WRITTEN = "judge-queries"  # in the session: the questions that are written
_ADDRESS = "questions"  # in the address: the same, for who loads the page again or comes back to it
_ADDRESSED = 2_000  # characters at most that stand in it
_LOGGED = 100  # of the commonest searches that are offered
_OF_DOCUMENTS = 100  # questions made from them
_KEYS = (
    (True, "Relevant", "y", ":material/thumb_up:"),
    (False, "Not relevant", "n", ":material/thumb_down:"),
    (None, "Cannot say", "s", ":material/question_mark:"),
)


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Judge", anchor=False)
    if is_empty(visit):
        return
    generations = comparable(visit.collection.generations())
    st.caption(
        "Say of one passage after another whether it answers. What is asked next decides soonest which of "
        "two ways of searching is better; which of them found it is not shown."
    )
    first, second, queries = _asked(visit, generations)
    if first == second:
        st.markdown("Choose two ways that differ.")
    elif not queries:
        st.markdown(
            "Write some questions above, one a line, give a file of them, have them made from documents, or "
            "judge results on the page **Search** first."
        )
    else:
        with telling_errors():
            _judge(visit, first, second, queries)
    _offer_importing(visit)
    _offer_improving(visit)


def way_of(side: Side) -> str:
    """A side as the library names it."""
    return f"{side.ranking.mode},{side.ranking.fusion},generation={side.generation}"


def _asked(visit: Visit, generations: Sequence[GenerationRow]) -> tuple[Side, Side, tuple[str, ...]]:
    """What is compared, and by which queries."""
    known = tuple(one.query for one in visit.collection.judgements.queries())
    with st.expander("What is compared", icon=":material/compare_arrows:", expanded=not known):
        sides = []
        choices = [Side(each.number, ranking) for each in generations for ranking in Ranking]
        for place, name, usual in zip(
            st.columns(2), ("first", "second"), usual_sides(generations), strict=True
        ):
            with place:
                called, at = {str(one): str(one) for one in choices}, choices.index(usual)
                way = pick(f"The {name} way", called, f"judge-{name}", index=at, bind="query-params")
                sides.append(next(one for one in choices if str(one) == way))
        written = _written()
        given: list[str] = []
        with telling_errors():
            given += [*_of_file(), *_made(visit)]
        given += _searches(visit)
        st.text_input("Your name", key="judge-rater", max_chars=200, help="Kept with each judgement.")
    lines = tuple(line.strip() for line in written.splitlines() if line.strip())
    return sides[0], sides[1], tuple(dict.fromkeys([*lines, *given])) or known


def _written() -> str:
    """The questions that are written: kept in the session, and in the address as long as it holds them."""
    if _WRITTEN not in st.session_state:  # the widget forgets them when another page is shown
        kept = st.session_state.get(_ADDRESS, "")
        st.session_state[_WRITTEN] = st.query_params.get(_ADDRESS, kept)
    written = st.text_area(
        "Questions, one a line",
        key=_WRITTEN,
        placeholder="Left empty: those that were judged so far",
        max_chars=100_000,
        on_change=_keep_written,
    )
    st.session_state[_ADDRESS] = written
    return written


def _keep_written() -> None:
    """Only what is typed changes the address: else no way back would lead past this page."""
    written = st.session_state[_WRITTEN]
    if 0 < len(written) <= _ADDRESSED:
        st.query_params[_ADDRESS] = written
    else:
        st.query_params.pop(_ADDRESS, None)


def _of_file() -> list[str]:
    """The questions of a file that is given."""
    file = st.file_uploader(
        "Or a file of them: .txt, one a line, or a table",
        type=["txt", "jsonl", "csv", "tsv"],
        key="judge-queries-file",
    )
    if file is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = _kept_file(Path(folder) / "queries", file)
        return [] if path is None else read_queries(path)


def _made(visit: Visit) -> tuple[str, ...]:
    """Questions made from documents, if they are wanted; made once while the collection stays as it is."""
    if not st.checkbox(f"Make {_OF_DOCUMENTS} from titles and sentences of the documents", key="judge-made"):
        return ()
    from nearsay.indexer.encoder_candidate import queries_of_documents

    with st.spinner("Reading documents …"):
        asked = (visit.name, visit.collection.snapshot().collection)
        return kept(_MADE, asked, lambda: queries_of_documents(visit.collection, _OF_DOCUMENTS))


def _searches(visit: Visit) -> tuple[str, ...]:
    """The commonest searches of people, where they are kept and chosen."""
    searches = visit.collection.judgements.searches
    keeps = st.toggle(
        "Keep what people search for",
        searches.on,
        key=f"judge-log-{searches.on}",
        disabled=not visit.may_write,
        help="The words and the time, in the library's folder; switched off, all of them are forgotten.",
    )
    if keeps != searches.on:
        with telling_errors():
            visit.check_writing()
            searches.switch(on=keeps)
        st.rerun()
    found = searches.queries(_LOGGED) if searches.on else []
    label = f"Take the {counted(len(found), 'commonest search', 'commonest searches')}"
    if found and st.checkbox(label, key="judge-from-log"):
        return tuple(query for query, _ in found)
    return ()


def _judge(visit: Visit, first: Side, second: Side, queries: tuple[str, ...]) -> None:
    compared = _compared(visit, way_of(first), way_of(second), queries)
    found, following = compared.difference(), compared.next()
    _progress(found, first, second, len(compared.queries))
    say_notes(compared.notes)
    if following is None and found.judged:
        st.markdown(
            "**Everything that matters for this comparison is judged**, for these questions. "
            "Add others under *What is compared*."
        )
    elif following is not None:
        st.subheader(as_markdown(following.query), anchor=False)
        st.html(passage_html(title=following.hit.title, text=following.hit.text, whole=True))
        note = st.text_input("Note", key=f"judge-note-{found.judged}", max_chars=2_000)
        with st.container(horizontal=True):
            for relevant, label, key, icon in _KEYS:
                st.button(
                    label,
                    key=f"judge-{key}",
                    icon=icon,
                    shortcut=key,
                    type="primary" if relevant else "secondary",
                    on_click=_keep,
                    args=(visit, compared, following, relevant, note),
                )
    if st.session_state.get(_DONE, ("",))[0] == visit.name:
        st.button(
            "Take the last one back",
            key="judge-u",
            icon=":material/undo:",
            shortcut="u",
            on_click=_back,
            args=(visit,),
        )


def _compared(visit: Visit, first: str, second: str, queries: tuple[str, ...]) -> JudgedComparison:
    """The comparison with its rankings, made anew when the collection or what is asked is another."""
    version = visit.collection.snapshot().collection
    asked = (visit.name, version, first, second, queries)
    with st.spinner("Searching for every question in both ways …"):
        return kept(_KEPT, asked, lambda: visit.collection.judgements.compare(first, second, queries))


def _progress(found: Difference, first: Side, second: Side, queries: int) -> None:
    """What is known so far; once judgements have decided, that they have, and for how many questions."""
    alike = first.generation == second.generation
    said = as_markdown(found.said(*((one.ranking if alike else one) for one in (first, second))))
    if not found.judged or found.verdict is Verdict.OPEN:
        st.caption(said[:1].upper() + said[1:])
    else:
        st.success(f"Decided for {counted(queries, 'question')}: {said}", icon=":material/check_circle:")


@telling_errors()
def _keep(visit: Visit, compared: JudgedComparison, asked: ToJudge, relevant: bool | None, note: str) -> None:
    visit.check_writing()
    rater = str(st.session_state.get("judge-rater", "")).strip()
    compared.judge(asked, relevant, rater=rater or None, note=note.strip() or None)
    st.session_state[_DONE] = (visit.name, asked)


@telling_errors()
def _back(visit: Visit) -> None:
    visit.check_writing()
    last: ToJudge = st.session_state.pop(_DONE)[1]
    visit.collection.judgements.remove(last.query, last.hit)


def _offer_importing(visit: Visit) -> None:
    """Judgements from elsewhere: a table, or TREC's qrels with the texts of their queries."""
    with st.expander("Import judgements", icon=":material/upload_file:"):
        st.caption(
            "A table (CSV, TSV, JSON lines, Parquet) with the columns query, document and relevant, and "
            "perhaps passage, rater and note; or a file of TREC's or BEIR's qrels, with the queries' texts "
            "beside it. All are taken over or none. What was said before of the same query and passage is "
            "replaced."
        )
        with st.form("judge-import", border=False, clear_on_submit=True):
            table = st.file_uploader("Judgements", key="judge-import-table")
            queries = st.file_uploader(
                "Queries of qrels: a table with the columns _id and text", key="judge-import-queries"
            )
            asked = st.form_submit_button("Import", icon=":material/upload_file:")
        if (taken := st.session_state.pop(_IMPORTED, None)) is not None:
            st.success(_taken_over(taken))
            say_notes(taken.notes)
        if not asked:
            return
        if table is None:
            st.warning("Choose a file of judgements.")
            return
        with telling_errors(), st.spinner("Reading …"), tempfile.TemporaryDirectory() as folder:
            visit.check_writing()
            paths = [_kept_file(Path(folder) / str(at), one) for at, one in enumerate((table, queries))]
            files = (path for path in paths if path is not None)
            st.session_state[_IMPORTED] = taken = visit.collection.judgements.load(*files)
            st.toast(_taken_over(taken), icon=":material/check:")
            st.rerun()  # the question above may be another now; all are searched for before the page is there


def _taken_over(taken: "JudgementImport") -> str:
    of = counted(taken.queries, "query", "queries")
    return f"{counted(taken.judgements, 'judgement')} of {of} taken over."


def _kept_file(folder: Path, file: "UploadedFile | None") -> Path | None:
    """The upload as a file, which is read by what its name ends with."""
    if file is None:
        return None
    folder.mkdir()
    path = folder / safe_name(file.name)
    path.write_bytes(file.getvalue())
    return path


def _offer_improving(visit: Visit) -> None:
    name = visit.name or ""
    with st.expander("Improve the search by what was judged", icon=":material/trending_up:"):
        st.caption(
            "An adapter of the queries and a weight of words are learned from the judgements and measured on "
            "those that nothing learns from. No passage is embedded again. What is applied is live at once, "
            "and can be taken back."
        )
        every = visit.collection.generations()
        live = next((row for row in every if row.state is GenerationState.LIVE), None)
        refined = None if live is None else visit.collection.browser.refined(live)
        if refined is not None:
            st.markdown(as_markdown(f"Live: {refined}."))
        encoder = st.text_input(
            "Train the encoder, too, and call it",
            key="improve-encoder",
            placeholder="leave empty to train none",
            help="It takes minutes, and embeds the collection once. If the encoder is recommended, its "
            "generation waits under Generations to be promoted.",
        ).strip()
        with st.container(horizontal=True):
            for label, option, icon in (
                ("Improve", "", ":material/science:"),
                ("Improve and apply", "--apply", ":material/bolt:"),
                ("Take it back", "--undo", ":material/undo:"),
            ):
                nothing = option == "--undo" and refined is None
                if st.button(label, key=f"improve-{label}", icon=icon, disabled=nothing):
                    with telling_errors():
                        options = [option] if option else []
                        if encoder and option != "--undo":
                            folder = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, encoder)
                            options += ["--encoder", str(folder)]
                        job = start_job(visit, ["index", "improve", *options, "--", name], f"{label}: {name}")
                        open_page("jobs", job=str(job.number))  # where its table is shown
        place = visit.library.store.folder / Shelf.ENCODERS / encoder
        trained = ["--encoder", str(place)] if encoder else []
        show_command(visit, ["index", "improve", *trained, "--", name])
