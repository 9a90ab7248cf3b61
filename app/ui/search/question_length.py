"""How long a question may be: for the page at all, and for the encoder before it leaves out the rest."""

from typing import TYPE_CHECKING, cast

import streamlit as st

from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.training.sentence.text_encoder import TextKind

if TYPE_CHECKING:
    from nearsay.training.sentence.encoder import Encoder

__all__ = ["LONGEST_FILTER", "are_short", "short_enough", "tell_what_was_cut"]

_LONGEST = 5_000  # characters: a question stands in the address, which servers take up to some length only
LONGEST_FILTER = 20_000  # characters: it may list many values


def short_enough(query: str) -> str:
    """The question; of one that is too long it is told, and "" is given, so that nothing is asked."""
    return query if are_short(("The question", query), advice="a sentence or two find best") else ""


def are_short(*texts: tuple[str, str], most: int = _LONGEST, advice: str = "") -> bool:
    """Whether all of these may be looked at; of the first that is too long it is told.

    texts:  what each is called, at the begin of a sentence, and itself. They come from a form or an address,
            and a visitor's longest would keep the encoder busy for everybody
    most:   characters of each
    advice: what to do instead
    """
    for what, text in texts:
        if len(text) > most:
            more = f": {advice}" if advice else ""
            said = f"{what} has {len(text):,} characters, and {most:,} are the most that are taken here"
            say_error(BadInputError(f"{said}. Shorten it{more}"))
            return False
    return True


def tell_what_was_cut(visit: Visit, generation: GenerationRow, query: str) -> None:
    """Say it where the encoder that a search by meaning asked takes only the beginning of the question."""
    made_by = generation.encoder
    encoder = cast("Encoder", visit.library.encoder(made_by.source, fingerprint=made_by.fingerprint))
    pieces = encoder.pieces(query, kind=TextKind.QUERY)
    if all(piece.kept for piece in pieces):
        return
    compared = sum(piece.kept and not piece.special for piece in pieces)
    st.caption(
        f"Only the first {compared:,} tokens of your question were compared by meaning: "
        f"{as_markdown(made_by.name)} takes no more."
    )
