"""Another encoder for a collection: rebuild beside the live generation, promote, roll back."""

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.generation_rows import promotion_changes
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.encoders.offered import ask_encoder
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.encoders import source_of
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["show_rollout"]


def show_rollout(visit: Visit, collection: Collection, found: CollectionOverview) -> None:
    """What is ready to go live first, then the way to make another."""
    live = found.live
    ready = [row for row in found.generations if row.state is GenerationState.READY]
    retired = [row for row in found.generations if row.state is GenerationState.RETIRED]
    if ready:
        _offer_promotion(visit, collection, ready, None if live is None else live.number)
    with st.expander("Rebuild with another encoder", icon=":material/model_training:", expanded=False):
        _ask_rebuild(visit, found)
    with st.expander("Mend the live generation", icon=":material/healing:"):
        st.caption(
            "What is damaged or missing is made anew from the stored text, and passages that wait get their "
            "vectors. Nothing is done where all is well."
        )
        arguments = ["index", "rebuild", "--", found.name]
        if st.button("Mend it", key=f"mend-{found.name}", icon=":material/healing:"):
            title = f"Mend {found.name}"
            start(visit, RunKind.REBUILD, arguments, title=title, collection=found.name)
        show_command(visit, arguments)
    if retired and live is not None:
        before = max(retired, key=lambda row: row.promotion or 0)
        label = f"Roll back to generation {before.number} …"
        if st.button(label, key=f"rollback-{found.name}", icon=":material/undo:"):
            _confirm(visit, collection, before, live.number, back=True)


def _offer_promotion(
    visit: Visit, collection: Collection, ready: list[GenerationRow], live: int | None
) -> None:
    for row in ready:
        with st.container(border=True):
            st.markdown(
                f"**Generation {row.number}** by {as_markdown(row.encoder.name)} is ready. "
                "Compare its results with the live one's, then promote it."
            )
            with st.container(horizontal=True):
                link_to("compare", "Compare", icon=":material/compare_arrows:", collection=collection.name)
                label = f"Promote generation {row.number} …"
                if st.button(label, key=f"promote-{collection.name}-{row.number}", icon=":material/upgrade:"):
                    _confirm(visit, collection, row, live, back=False)


def _ask_rebuild(visit: Visit, found: CollectionOverview) -> None:
    st.caption(
        "Every passage is embedded again beside the live generation, which goes on answering. Nothing "
        "changes for searches until you promote the new one."
    )
    live = found.live
    source = ask_encoder(
        visit,
        key="rebuild_encoder",
        label="New encoder",
        without=None if live is None else source_of(live.encoder),
    )
    at_once = st.checkbox("Promote it as soon as it is ready", key="rebuild_promote")
    arguments = [
        *("index", "rebuild", "--encoder", source or "ENCODER"),
        *(["--promote"] if at_once else []),
        *("--", found.name),
    ]
    if st.button(
        f"Rebuild {found.passages:,} passages",
        key=f"rebuild-{found.name}",
        type="primary",
        icon=":material/play_arrow:",
        disabled=source is None,
    ):
        title = f"Rebuild {found.name} with {source}"
        start(visit, RunKind.REBUILD, arguments, title=title, collection=found.name)
    if source is not None:
        show_command(visit, arguments)


@st.dialog("Which generation answers", icon=":material/layers:")
def _confirm(
    visit: Visit, collection: Collection, chosen: GenerationRow, live: int | None, *, back: bool
) -> None:
    """live: the number of the generation that answered when this was asked for."""
    with telling_errors():
        found = collection.overview()
        if found.live is not None and found.live.number != live:  # the command would go back from another
            raise BadInputError(f"generation {found.live.number} went live meanwhile. Load the page again")
        what = "Roll back to" if back else "Promote"
        st.markdown(
            f"**{what} generation {chosen.number}** of {as_markdown(collection.name)}? This will change:"
        )
        for said in promotion_changes(found.live, chosen, collection.browser.waiting(chosen)):
            st.markdown(f"- {as_markdown(said)}")
        with st.container(horizontal=True):
            sure = st.button(what.removesuffix(" to"), type="primary", key="rollout-sure")
            if st.button("Leave it", key="rollout-not"):
                st.rerun()
        arguments = ["index", "promote", "--generation", str(chosen.number), "--", collection.name]
        if back:
            arguments = ["index", "rollback", "--", collection.name]
        if sure:
            start(
                visit,
                RunKind.ROLLBACK if back else RunKind.PROMOTE,
                arguments,
                title=f"{what} generation {chosen.number} of {collection.name}",
                collection=collection.name,
            )
        show_command(visit, arguments)
