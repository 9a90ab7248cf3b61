"""The page Judge: one query and one passage at a time, by keyboard."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.app.ui.asked import is_empty
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.controls import pick, show_notes
from nearsay.app.ui.errors import showing_errors
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

_KEPT = "judging"  # session key: the comparison with its rankings
_DONE = "judged_last"  # session key: the last judgement and its collection, for undo
_IMPORTED = "judge_imported"  # session key: the last import
_MADE = "judge_made_queries"  # session key: queries generated from documents
_WRITTEN = "judge-queries"  # session key: the typed queries
_ADDRESS = "questions"  # in the address: the same, so that they survive a reload
_ADDRESSED = 2_000  # characters of it, at most
_LOGGED = 100  # most frequent searches that are offered
_OF_DOCUMENTS = 100  # queries generated from documents
_KEYS = (
    (True, "Relevant", "y", ":material/thumb_up:"),
    (False, "Not relevant", "n", ":material/thumb_down:"),
    (None, "Not sure", "s", ":material/question_mark:"),
)


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Judge", anchor=False)
    if is_empty(visit):
        return
    generations = comparable(visit.collection.generations())
    st.caption(
        "Judge one passage after another: is it relevant to the query? The order is chosen to decide with "
        "few judgements which of two rankings is better; which of them found a passage is not shown."
    )
    first, second, queries = _asked(visit, generations)
    if first == second:
        st.markdown("Choose two different rankings.")
    elif not queries:
        st.markdown(
            "Enter queries above, one per line, upload a file, generate them from documents, or judge "
            "results on the page **Search** first."
        )
    else:
        with showing_errors():
            _judge(visit, first, second, queries)
    _offer_importing(visit)
    _offer_improving(visit)


def way_of(side: Side) -> str:
    """Return a side in the library's syntax."""
    return f"{side.ranking.mode},{side.ranking.fusion},generation={side.generation}"


def _asked(visit: Visit, generations: Sequence[GenerationRow]) -> tuple[Side, Side, tuple[str, ...]]:
    known = tuple(one.query for one in visit.collection.judgements.queries())
    with st.expander("Rankings and queries", icon=":material/compare_arrows:", expanded=not known):
        sides = []
        choices = [Side(each.number, ranking) for each in generations for ranking in Ranking]
        for place, name, usual in zip(
            st.columns(2), ("first", "second"), usual_sides(generations), strict=True
        ):
            with place:
                called, at = {str(one): str(one) for one in choices}, choices.index(usual)
                label, key = f"{name.capitalize()} ranking", f"judge-{name}"
                way = pick(label, called, key, index=at, bind="query-params")
                sides.append(next(one for one in choices if str(one) == way))
        written = _written()
        given: list[str] = []
        with showing_errors():
            given += [*_of_file(), *_made(visit)]
        given += _searches(visit)
        st.text_input("Your name", key="judge-rater", max_chars=200, help="Stored with each judgement.")
    lines = tuple(line.strip() for line in written.splitlines() if line.strip())
    return sides[0], sides[1], tuple(dict.fromkeys([*lines, *given])) or known


def _written() -> str:
    """Return the typed queries; they are kept in the session, and in the address unless they are too long."""
    if _WRITTEN not in st.session_state:  # Streamlit drops the widget's value on other pages
        kept = st.session_state.get(_ADDRESS, "")
        st.session_state[_WRITTEN] = st.query_params.get(_ADDRESS, kept)
    written = st.text_area(
        "Queries, one per line",
        key=_WRITTEN,
        placeholder="empty: the queries judged so far",
        max_chars=100_000,
        on_change=_keep_written,
    )
    st.session_state[_ADDRESS] = written
    return written


def _keep_written() -> None:
    """Put them into the address, only when typed: otherwise Back could not leave this page."""
    written = st.session_state[_WRITTEN]
    if 0 < len(written) <= _ADDRESSED:
        st.query_params[_ADDRESS] = written
    else:
        st.query_params.pop(_ADDRESS, None)


def _of_file() -> list[str]:
    file = st.file_uploader(
        "Or a file: .txt with one query per line, or a table",
        type=["txt", "jsonl", "csv", "tsv"],
        key="judge-queries-file",
    )
    if file is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = _kept_file(Path(folder) / "queries", file)
        return [] if path is None else read_queries(path)


def _made(visit: Visit) -> tuple[str, ...]:
    """Return queries generated from documents, if wanted; generated once per state of the collection."""
    if not st.checkbox(f"Generate {_OF_DOCUMENTS} from titles and sentences of documents", key="judge-made"):
        return ()
    from nearsay.indexer.encoder_candidate import queries_of_documents

    with st.spinner("Reading documents …"):
        asked = (visit.name, visit.collection.snapshot().collection)
        return kept(_MADE, asked, lambda: queries_of_documents(visit.collection, _OF_DOCUMENTS))


def _searches(visit: Visit) -> tuple[str, ...]:
    """Return the most frequent searches, if they are logged and selected."""
    searches = visit.collection.judgements.searches
    keeps = st.toggle(
        "Log searches",
        searches.on,
        key=f"judge-log-{searches.on}",
        disabled=not visit.may_write,
        help="Stores query and time in the library's folder. Switching it off deletes them all.",
    )
    if keeps != searches.on:
        with showing_errors():
            visit.check_writing()
            searches.switch(on=keeps)
        st.rerun()
    found = searches.queries(_LOGGED) if searches.on else []
    label = f"Use the {counted(len(found), 'most frequent search', 'most frequent searches')}"
    if found and st.checkbox(label, key="judge-from-log"):
        return tuple(query for query, _ in found)
    return ()


def _judge(visit: Visit, first: Side, second: Side, queries: tuple[str, ...]) -> None:
    compared = _compared(visit, way_of(first), way_of(second), queries)
    found, following = compared.difference(), compared.next()
    _progress(found, first, second, len(compared.queries))
    show_notes(compared.notes)
    if following is None and found.judged:
        st.markdown(
            "**Everything that matters for this comparison is judged**, for these queries. "
            "Add others under *Rankings and queries*."
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
            "Undo the last one",
            key="judge-u",
            icon=":material/undo:",
            shortcut="u",
            on_click=_back,
            args=(visit,),
        )


def _compared(visit: Visit, first: str, second: str, queries: tuple[str, ...]) -> JudgedComparison:
    """Return the comparison with its rankings, computed again if the collection or the choices changed."""
    version = visit.collection.snapshot().collection
    asked = (visit.name, version, first, second, queries)
    with st.spinner("Running every query with both rankings …"):
        return kept(_KEPT, asked, lambda: visit.collection.judgements.compare(first, second, queries))


def _progress(found: Difference, first: Side, second: Side, queries: int) -> None:
    """Show the result so far, and once it is decided, for how many queries."""
    alike = first.generation == second.generation
    text = as_markdown(found.said(*((one.ranking if alike else one) for one in (first, second))))
    if not found.judged or found.verdict is Verdict.OPEN:
        st.caption(text[:1].upper() + text[1:])
    else:
        of = counted(queries, "query", "queries")
        st.success(f"Decided for {of}: {text}", icon=":material/check_circle:")


@showing_errors()
def _keep(visit: Visit, compared: JudgedComparison, asked: ToJudge, relevant: bool | None, note: str) -> None:
    visit.check_writing()
    rater = str(st.session_state.get("judge-rater", "")).strip()
    compared.judge(asked, relevant, rater=rater or None, note=note.strip() or None)
    st.session_state[_DONE] = (visit.name, asked)


@showing_errors()
def _back(visit: Visit) -> None:
    visit.check_writing()
    last: ToJudge = st.session_state.pop(_DONE)[1]
    visit.collection.judgements.remove(last.query, last.hit)


def _offer_importing(visit: Visit) -> None:
    """Import judgements: a table, or TREC qrels with the texts of their queries."""
    with st.expander("Import judgements", icon=":material/upload_file:"):
        st.caption(
            "A table (CSV, TSV, JSON lines, Parquet) with the columns query, document and relevant, and "
            "optionally passage, rater and note; or TREC or BEIR qrels, with a second file of the queries' "
            "texts. Either all rows are imported or none. Earlier judgements of the same query and passage "
            "are replaced."
        )
        with st.form("judge-import", border=False, clear_on_submit=True):
            table = st.file_uploader("Judgements", key="judge-import-table")
            queries = st.file_uploader(
                "Queries of qrels: a table with the columns _id and text", key="judge-import-queries"
            )
            asked = st.form_submit_button("Import", icon=":material/upload_file:")
        if (taken := st.session_state.pop(_IMPORTED, None)) is not None:
            st.success(_taken_over(taken))
            show_notes(taken.notes)
        if not asked:
            return
        if table is None:
            st.warning("Choose a file of judgements.")
            return
        with showing_errors(), st.spinner("Reading …"), tempfile.TemporaryDirectory() as folder:
            visit.check_writing()
            paths = [_kept_file(Path(folder) / str(at), one) for at, one in enumerate((table, queries))]
            files = (path for path in paths if path is not None)
            st.session_state[_IMPORTED] = taken = visit.collection.judgements.load(*files)
            st.toast(_taken_over(taken), icon=":material/check:")
            st.rerun()  # the query above may have changed; the rerun takes a while


def _taken_over(taken: "JudgementImport") -> str:
    of = counted(taken.queries, "query", "queries")
    return f"{counted(taken.judgements, 'judgement')} of {of} imported."


def _kept_file(folder: Path, file: "UploadedFile | None") -> Path | None:
    """Save the upload under its name, whose ending determines how it is read."""
    if file is None:
        return None
    folder.mkdir()
    path = folder / safe_name(file.name)
    path.write_bytes(file.getvalue())
    return path


def _offer_improving(visit: Visit) -> None:
    name = visit.name or ""
    with st.expander("Improve the search from judgements", icon=":material/trending_up:"):
        st.caption(
            "Learns a query adapter and the weight of words from the judgements, and measures both on "
            "held-out judgements. No passage is embedded again. Applying them takes effect at once and can "
            "be undone."
        )
        every = visit.collection.generations()
        live = next((row for row in every if row.state is GenerationState.LIVE), None)
        refined = None if live is None else visit.collection.browser.refined(live)
        if refined is not None:
            st.markdown(as_markdown(f"Live: {refined}."))
        encoder = st.text_input(
            "Also train an encoder with this name",
            key="improve-encoder",
            placeholder="empty: do not train one",
            help="Takes minutes, and embeds the collection once. If the encoder is recommended, you can "
            "promote its generation under Generations.",
        ).strip()
        with st.container(horizontal=True):
            for label, option, icon in (
                ("Improve", "", ":material/science:"),
                ("Improve and apply", "--apply", ":material/bolt:"),
                ("Undo", "--undo", ":material/undo:"),
            ):
                nothing = option == "--undo" and refined is None
                if st.button(label, key=f"improve-{label}", icon=icon, disabled=nothing):
                    with showing_errors():
                        options = [option] if option else []
                        if encoder and option != "--undo":
                            folder = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, encoder)
                            options += ["--encoder", str(folder)]
                        job = start_job(visit, ["index", "improve", *options, "--", name], f"{label}: {name}")
                        open_page("jobs", job=str(job.number))  # which shows its table
        place = visit.library.store.folder / Shelf.ENCODERS / encoder
        trained = ["--encoder", str(place)] if encoder else []
        show_command(visit, ["index", "improve", *trained, "--", name])
