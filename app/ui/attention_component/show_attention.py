"""Show a text's attention on the page, and read what is chosen in the view."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

    from nearsay.training.bert.attention import TextAttention
    from nearsay.training.bert.relevance import TokenRelevance

_MOST_BYTES = 3_000_000  # of weights; for longer texts only chosen layers are sent, at least one
_MOST_MASKS = 512


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """What is chosen in the browser; layers, heads and tokens are counted from 0."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    place: int | None  # index of the frozen token
    special: bool = True  # [CLS] and [SEP] are shown


def text_key(source: str, text: str, pair: str | None) -> str:
    """Identify the text that a choice refers to; the same with and without masks."""
    return hashlib.sha256(json.dumps([source, text, pair]).encode()).hexdigest()[:16]


def masked_of(key: str, of: str) -> tuple[int, ...]:
    """Return the tokens of this text that are masked in the browser."""
    places = _about(key, "masked", of).get("places")
    return _numbers(places, _MOST_MASKS) if isinstance(places, list) else ()


def choice_of(key: str, of: str, layers: int, heads: int) -> AttentionChoice | None:
    """Return what is chosen in the browser; None if it is invalid or of another text."""
    state = _about(key, "choice", of)
    taken, some, place = state.get("layers"), state.get("heads"), state.get("place")
    if not isinstance(taken, list) or not isinstance(some, list):
        return None
    chosen = _numbers(taken, layers), _numbers(some, heads)
    if not all(chosen) or max(chosen[0]) >= layers or max(chosen[1]) >= heads:
        return None
    frozen = place if type(place) is int and place >= 0 else None
    return AttentionChoice(*chosen, frozen, state.get("special") is not False)


def packed_attention(
    read: "TextAttention",
    relevance: "TokenRelevance",
    *,
    of: str,
    choice: AttentionChoice | None = None,
    follows: bool = False,
) -> dict[str, Any]:
    """Return the component's data: tokens, weights as 16-bit integers, shares, predictions for masked tokens.

    choice: which layers to send if the text is too long for all of them
    follows: the view shows this choice and is not interactive
    """
    total, heads, n, _ = read.attentions.shape
    sent = list(range(total))
    if read.attentions.size * 2 > _MOST_BYTES:
        room = max(_MOST_BYTES // (heads * n * n * 2), 1)
        sent = list(choice.layers if choice is not None else (total - 1,))[:room]
    packed = np.round(read.attentions[sent].clip(0, 1) * 65535).astype("<u2")
    masked = [token.text for token in read.tokens if token.masked]
    content: dict[str, Any] = {
        "of": of,
        "tokens": [
            {"text": token.text, "special": token.special, "masked": token.masked} for token in read.tokens
        ],
        "layers": sent,
        "total": total,
        "heads": heads,
        "start": sent[-1] if len(sent) < total else total // 2,
        "weights": base64.b64encode(packed.tobytes()).decode(),
        "shares": [
            {"name": name, "values": [round(float(value), 5) for value in values]}
            for name, values in _measures(relevance)
            if values is not None
        ],
        "words": [
            {"token": token, "words": [[word.token, word.probability] for word in words]}
            for token, words in zip(masked, read.words, strict=False)
        ],
    }
    content["version"] = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    follow = None
    if follows and choice is not None:
        place = choice.place if choice.place is not None and choice.place < n else None
        follow = {"layers": choice.layers, "heads": choice.heads, "place": place, "special": choice.special}
    return content | {"follow": follow}


def show_attention(content: Mapping[str, Any], *, key: str, height: int = 620) -> None:
    """Draw the view; `masked_of` and `choice_of` return what is chosen in it at the next run of the page."""
    _component()(
        data={**content, "key": key, "height": height},
        key=key,
        on_choice_change=_nothing,
        on_masked_change=_nothing,
    )


def _measures(relevance: "TokenRelevance") -> Sequence[tuple[str, NDArray[np.float64] | None]]:
    return (
        ("vector", relevance.vector),
        ("query", relevance.query),
        ("rollout", relevance.rollout),
        ("gradient", relevance.gradient),
    )


def _about(key: str, part: str, of: str) -> Mapping[str, object]:
    state = st.session_state.get(key)
    found = state.get(part) if isinstance(state, Mapping) else None
    return found if isinstance(found, Mapping) and found.get("of") == of else {}


def _numbers(values: list[object], most: int) -> tuple[int, ...]:
    """Return distinct non-negative integers from the browser in ascending order; () for anything else."""
    if len(values) > most or any(type(value) is not int or value < 0 for value in values):
        return ()
    return tuple(sorted({value for value in values if isinstance(value, int)}))


def _nothing() -> None:
    """The callback that Streamlit requires for each part of the state."""


@cache
def _component() -> "ComponentRenderer":
    def part(name: str) -> str:
        return files("nearsay.app.ui.attention_component").joinpath(name).read_text("utf-8")

    return st.components.v2.component(
        "nearsay_attention",
        html=part("attention.html"),
        css=part("attention.css"),
        js=part("attention.js"),
    )
