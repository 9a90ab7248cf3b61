"""Inside an encoder: the page by itself, and in Chromium."""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from nearsay.app.jobs import Jobs
from nearsay.app.ui.attention_component import show_attention
from nearsay.app.ui.attention_component.show_attention import (
    AttentionChoice,
    choice_of,
    masked_of,
    packed_attention,
    text_key,
)
from nearsay.app.ui.encoders.inside import layers_html, lines_html, summaries_html
from nearsay.indexer import Library
from nearsay.indexer.inside.tokens import Summary, TokenMatch, TokenMatches
from nearsay.training.bert.attention import AttentionReader, TextAttention
from nearsay.training.bert.relevance import TokenRelevance

LAYER = 4  # that is chosen when nothing was: the middle one of the bundled encoder
FIND = """
const roots = [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')].map(e => e.shadowRoot);
const root = roots.filter(each => each && each.getElementById('inside'))[arguments[0]];
const board = root && root.getElementById('inside');
"""
OPEN, NASTY = "Look inside", "<img src=x onerror=alert(1)>"


def _words(app: AppTest) -> str:
    shown = [*app.markdown, *app.caption, *app.error, *app.info, *app.warning, *app.subheader]
    return "\n".join(each.value for each in shown).replace("\\", "")


def _open(app: AppTest) -> AppTest:
    return next(each for each in app.button if each.label == OPEN).click().run()


# What the browser gets, and what it says


def _relevance(tokens: int) -> TokenRelevance:
    values = np.linspace(0, 1, tokens)
    return TokenRelevance(values, 0.0, None, 0.0, None, values, -values, True, ())


def test_the_browser_gets_the_weights_in_sixteen_bits(made_bert: Path) -> None:
    read = AttentionReader.load(made_bert, device="cpu").read("the cat sat", masked=[2])
    content = packed_attention(read, _relevance(5), of="x")
    import base64

    sent = np.frombuffer(base64.b64decode(content["weights"]), "<u2").reshape(1, 2, 5, 5) / 65535
    np.testing.assert_allclose(sent, read.attentions, atol=1e-5)
    assert [share["name"] for share in content["shares"]] == ["vector", "rollout", "gradient"]
    assert [(each["token"], len(each["words"])) for each in content["words"]] == [("cat", 5)]
    assert json.dumps(content)
    assert content["version"] != packed_attention(read, _relevance(5), of="y")["version"]


def test_of_a_long_text_only_the_chosen_layers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        show_attention, "_MOST_BYTES", 2 * 2 * 9 * 2
    )  # two layers of two heads of three tokens
    attentions = np.full((6, 2, 3, 3), 1 / 3, np.float32)
    read = TextAttention((), attentions, np.zeros((7, 3, 4)), np.zeros((6, 3, 4)), (), ())
    assert packed_attention(read, _relevance(3), of="x")["layers"] == [5]
    chosen = AttentionChoice((1, 2, 4), (0, 1), None)
    content = packed_attention(read, _relevance(3), of="x", choice=chosen)
    assert (content["layers"], content["total"], content["start"]) == ([1, 2], 6, 2)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"of": "x", "layers": [2, 0], "heads": [1], "place": 3}, AttentionChoice((0, 2), (1,), 3)),
        ({"of": "x", "layers": [0], "heads": [1], "place": None, "special": False},
         AttentionChoice((0,), (1,), None, special=False)),
        ({"of": "y", "layers": [0], "heads": [1]}, None),
        ({"of": "x", "layers": [3], "heads": [1]}, None),
        ({"of": "x", "layers": [0], "heads": [-1]}, None),
        ({"of": "x", "layers": [True], "heads": [1]}, None),
        ({"of": "x", "layers": [], "heads": [1]}, None),
        ({"of": "x", "layers": ["0"], "heads": {}}, None),
        ("nonsense", None),
    ],
)  # fmt: skip
def test_a_choice_is_taken_only_if_it_is_one(
    said: object, wanted: AttentionChoice | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show_attention.st, "session_state", {"k": {"choice": said}})
    assert choice_of("k", "x", layers=3, heads=2) == wanted


def test_masks_are_those_of_the_text_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    of = text_key("a", "text", None)
    state = {"k": {"masked": {"of": of, "places": [4, 1, 4]}}}
    monkeypatch.setattr(show_attention.st, "session_state", state)
    assert masked_of("k", of) == (1, 4)
    assert masked_of("k", text_key("a", "text", "pair")) == ()
    assert masked_of("other", of) == ()


def test_nothing_of_a_document_is_read_as_html() -> None:
    match = TokenMatch(
        1, 0.5, NASTY, NASTY, 1, f"a {NASTY} b", NASTY, 2, 2 + len(NASTY), 1, None, NASTY, 0, 0, 0, 0.5,
        None, None, {},
    )  # fmt: skip
    for html in (
        lines_html(TokenMatches((match,), (), 1, ())),
        summaries_html([Summary(NASTY, ((NASTY, 2),), ((NASTY, 1),))]),
    ):
        assert "<img" not in html
        assert "&lt;img" in html
    assert layers_html([[0.0, 0.25]]).count("<td") == 2


# The page


@pytest.mark.long
def test_a_text_is_looked_into_and_masks_are_told_of(page: Callable[..., AppTest], made_bert: Path) -> None:
    app = _open(page("encoders", part="Inside"))
    assert "Hover over a token" in _words(app)
    assert "Click a token above" in _words(app)
    assert not app.error
    app.text_area(key="in_text").input("the cat sat")
    app.text_input(key="in_query").input("the dog")
    app.selectbox(key="in_source").select(str(made_bert))
    app = _open(app)
    assert -1.0 <= float(app.metric[0].value) <= 1.0
    assert "tiny has no pooling" in _words(app)


def test_too_long_a_text_is_not_read(page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise AssertionError("it was loaded")

    monkeypatch.setattr("nearsay.app.ui.encoders.inside.reader", load)
    app = page("encoders", part="Inside")
    app.text_area(key="in_text").input("a " * 10_001)
    assert "the limit is 20,000" in _open(app).error[0].value.replace("\\", "")


@pytest.mark.long
def test_heads_are_compared_over_the_collection(page: Callable[..., AppTest], made_bert: Path) -> None:
    app = page("encoders", part="Inside", state={"in_source": str(made_bert)})
    other = made_bert.parent / "other"
    shutil.copytree(made_bert, other)
    app = page("encoders", part="Inside")
    app.selectbox(key="in_source").select(str(made_bert))
    app.selectbox(key="in_beside").select(str(other))
    app.text_area(key="in_text").input("the cat sat")
    app = _open(app)
    app = app.toggle(key="in_changed").set_value(True).run()
    assert not app.error
    assert any("ns-heads" in each.proto.body and "0.000" in each.proto.body for each in app.get("html"))


@pytest.mark.long
def test_a_layer_is_scored_by_a_job(page: Callable[..., AppTest], settings, monkeypatch) -> None:
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    app = _open(page("encoders", part="Inside"))
    next(each for each in app.button if each.label == "Score the layers").click().run()
    with Library.open(settings.library) as library:
        (job,) = Jobs(library).list()
    assert job.arguments[:2] == ("evaluate", "layers")


@pytest.mark.long
def test_a_sample_keeps_the_tags_of_a_tagger_that_is_named(
    page: Callable[..., AppTest], settings, monkeypatch
) -> None:
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    frozen = AttentionChoice(layers=(LAYER,), heads=(0, 1), place=2)
    monkeypatch.setattr("nearsay.app.ui.encoders.inside.choice_of", lambda *_, **__: frozen)
    app = _open(page("encoders", part="Inside"))
    app = app.text_input(key="in_tagger").set_value(" my-tagger ").run()
    app.button(key="in_sample").click().run()
    assert any(f"Tokens of samples at layer {LAYER + 1}" in each.value for each in app.markdown)
    with Library.open(settings.library) as library:
        (job,) = Jobs(library).list()
    assert job.arguments[:3] == ("encoders", "inside", "sample")
    given = dict(itertools.pairwise(job.arguments))
    assert (given["--tagger"], given["--layer"]) == ("my-tagger", str(LAYER + 1))


@pytest.mark.long
def test_where_the_page_only_reads_nothing_can_be_started(page: Callable[..., AppTest], settings) -> None:
    app = _open(page("encoders", settings=replace(settings, read_only=True), part="Inside"))
    assert [each.label for each in app.button] == [OPEN]


# In the browser


class Inside:
    """The view as somebody at the browser has it."""

    def __init__(self, visitor: Any) -> None:
        self.visitor, self.browser = visitor, visitor.browser

    def run(self, script: str, *given: object, view: int = 0) -> Any:
        return self.browser.execute_script(FIND + script, view, *given)

    def soon(self, script: str, *given: object, view: int = 0) -> Any:
        """What the script gives once that is something."""
        return self.visitor.until(lambda _: self.run(script, *given, view=view), f"{script} gives nothing")

    def opens(self) -> None:
        self.visitor.goes_to("encoders?part=Inside&collection=samples")
        self.visitor.presses(OPEN)
        self.soon("return board && board.dataset.edges")

    def token(self, place: int, side: str = "from") -> Any:
        script = "return root.getElementById(arguments[1]).children[arguments[2]].firstChild"
        return self.run(script, side, place)

    def actions(self) -> Any:
        from selenium.webdriver.common.action_chains import ActionChains

        return ActionChains(self.browser, duration=10)


@pytest.fixture
def inside(visitor: Any) -> Inside:
    return Inside(visitor)


@pytest.fixture(scope="module")
def served(served_to_all: Callable[..., Any], save_tiny: Callable[[Path], Path]) -> Any:
    """With 4,000 tokens of the bundled encoder's fourth layer, and the tiny BERT twice."""

    def prepare(folder: Path) -> None:
        with Library.open(folder) as library:
            reader = AttentionReader.load(device="cpu", deepest=LAYER)
            library.collection("samples").explore.sample_tokens(reader, LAYER, tokens=4_000)
        tiny = save_tiny(folder)
        shutil.copytree(tiny, tiny.with_name("same"))

    return served_to_all(prepare)


@pytest.mark.long
def test_a_head_is_chosen_a_token_frozen_and_its_like_found(inside: Inside) -> None:
    inside.opens()
    assert inside.run("return board.dataset.columns") == "12"
    inside.run("root.getElementById('heads').children[2].click()")
    inside.soon("return board.dataset.columns === '1'")
    every = int(inside.run("return board.dataset.drawn"))
    assert inside.run("return root.getElementById('from').children.length") == 15
    inside.actions().move_to_element(inside.token(5)).perform()
    few = int(inside.soon("return Number(board.dataset.drawn) < arguments[1] && board.dataset.drawn", every))
    assert 1 <= few < every
    assert inside.soon("return root.getElementById('hint').textContent").startswith("most to ")
    inside.token(5).click()
    inside.actions().move_to_element(inside.run("return root.getElementById('titles')")).perform()
    inside.soon("return board.dataset.frozen === '5' && board.dataset.drawn === arguments[1]", str(few))
    inside.visitor.sees("“bank” at layer 4, head 3")
    inside.visitor.sees_element(".ns-kwic mark", 50)
    inside.visitor.sees("tokens of")
    embedding = inside.visitor.finds("document.querySelector('.ns-kwic').innerText")
    inside.visitor.presses("context")
    inside.visitor.finds(f"document.querySelector('.ns-kwic').innerText !== {json.dumps(embedding)}")
    inside.run("root.getElementById('special').click()")
    hidden = "return [...root.getElementById('from').children].filter(e => e.hidden).length === 2"
    inside.soon(hidden)
    inside.visitor.finds("document.querySelectorAll('.ns-kwic u').length === 50")
    inside.run("root.getElementById('release').click()")
    inside.visitor.sees("Click a token above")


@pytest.mark.long
def test_a_double_click_masks_a_token_and_the_words_are_those_of_fill(inside: Inside, served: Any) -> None:
    from nearsay.training.bert.fill import Filler

    inside.visitor.goes_to("encoders?part=Inside&collection=samples")
    _choose(inside.visitor, "tiny")
    inside.visitor.types("Text", "the cat sat on the mat .", enter=False)
    inside.visitor.presses(OPEN)
    inside.soon("return board && root.getElementById('from').children.length === 9")
    inside.actions().double_click(inside.token(2)).perform()
    told = inside.soon("return root.getElementById('words').innerText")
    tiny = str(served.library / "berts" / "tiny")
    wanted = Filler.load(tiny, device="cpu").fill("the [MASK] sat on the mat .", 5)
    assert told.startswith("Predictions for cat: ")
    found = [each.rsplit(" ", 2)[:2] for each in told.removeprefix("Predictions for cat: ").split(", ")]
    assert [word for word, _ in found] == [each.token for each in wanted]
    shares = [100 * each.probability for each in wanted]
    assert [float(share) for _, share in found] == pytest.approx(shares, abs=0.51)
    inside.actions().double_click(inside.token(2)).perform()
    inside.soon("return !root.getElementById('words').innerText")


@pytest.mark.long
def test_what_is_chosen_in_one_encoder_is_shown_in_the_one_beside_it(inside: Inside) -> None:
    inside.visitor.goes_to("encoders?part=Inside&collection=samples")
    _choose(inside.visitor, "tiny")
    _choose(inside.visitor, "same", choice="Compare with")
    inside.visitor.types("Text", "the cat sat", enter=False)
    inside.visitor.presses(OPEN)
    for view in (0, 1):
        inside.soon("return board && root.getElementById('from').children.length === 5", view=view)
    inside.run("root.getElementById('heads').children[1].click()")
    inside.token(3).click()
    inside.soon("return board.dataset.frozen === '3' && board.dataset.columns === '1'", view=1)
    inside.actions().double_click(inside.token(2)).perform()
    words = "return root.getElementById('words').innerText"
    assert inside.soon(words) == inside.soon(words, view=1)


@pytest.mark.long
def test_thirty_tokens_are_drawn_whichever_text_is_asked_about(inside: Inside) -> None:
    inside.opens()
    texts = [
        f"In the {when} the rain fell on river and town, and the old bridge by the mill was under "
        "water again, so that nobody came."
        for when in ("morning", "evening", "winter", "autumn", "summer")
    ]
    for text in texts:
        inside.visitor.types("Text", text, enter=False)
        inside.visitor.is_still()
        before = inside.run("return board.dataset.version")
        inside.visitor.presses(OPEN)
        inside.soon("return board && board.dataset.version !== arguments[1]", before)
        assert inside.run("return root.getElementById('from').children.length") == 30


@pytest.mark.long
def test_nothing_comes_from_elsewhere_and_markup_stays_text(inside: Inside) -> None:
    inside.opens()
    inside.visitor.types("Text", NASTY, enter=False)
    inside.visitor.presses(OPEN)
    inside.soon("return root.getElementById('from').innerText.includes('<')")
    assert inside.run("return root.querySelectorAll('img').length") == 0
    asked = [
        json.loads(entry["message"])["message"]["params"].get("request", {}).get("url", "")
        for entry in inside.browser.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert asked
    own = ("http://localhost:", "ws://localhost:", "data:", "blob:", "")
    assert [url for url in asked if not url.startswith(own[:-1]) and url] == []


def _choose(visitor: Any, name: str, *, choice: str = "Encoder") -> None:
    """The encoder whose name begins so."""

    def click(at: Any) -> bool:
        at.find_element("css selector", "[role=option]").click()
        return True

    field = f"[data-testid=stSelectbox] input[aria-label*='{choice}']"
    visitor.acts(lambda at: at.find_element("css selector", field).send_keys(name) or True, f"no {choice}")
    visitor.finds(f"document.querySelector('[role=option]')?.innerText.startsWith('{name}')")
    visitor.until(click, f"'{name}' cannot be chosen")
    visitor.finds(f'document.querySelector("{field}").value.startsWith("{name}")')
