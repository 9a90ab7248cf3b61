"""Libraries to look at, pages without a browser (AppTest), and a browser over a page that really runs."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from nearsay.app.ui import application, opened
from nearsay.app.ui.settings import Settings
from nearsay.data.document import JsonValue
from nearsay.data.samples import folder as sample_folder
from nearsay.indexer import Hit, HitScores, Library, Lineage

_SHOWN = 160  # documents of the sample corpus: enough for clusters, quick to embed


@pytest.fixture(scope="session")
def made_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a part of the sample corpus in the collection 'samples'; never written to."""
    home = tmp_path_factory.mktemp("ui") / "library"
    rows = [json.loads(line) for line in (sample_folder() / "corpus.jsonl").read_text("utf-8").splitlines()]
    with Library.open(home) as library:
        library.collection("samples").add_rows(rows[:: len(rows) // _SHOWN][:_SHOWN])
    return home


@pytest.fixture(autouse=True)
def _no_first_search(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No encoder is loaded beside the tests: a thread that still does so at the end takes Python down.

    And no library stays open after its test.
    """
    monkeypatch.setattr(opened, "_warm", lambda *_: None)
    yield
    opened._opened.clear()


@pytest.fixture
def library_folder(made_library: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(made_library, tmp_path / "library"))


@pytest.fixture
def settings(library_folder: Path) -> Settings:
    """The page's settings over a library of the test's own."""
    return Settings(library=str(library_folder), device="cpu")


Page = Callable[..., AppTest]


@pytest.fixture
def page(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Page:
    """`page("search", q="rain")`: the page by its address, run once, with what stands in the address.

    Settings other than the usual are given as `settings=`, a session's state as `state=`.
    """
    usual = settings

    def look(
        path: str,
        settings: Settings | None = None,
        state: dict[str, object] | None = None,
        **query: str,
    ) -> AppTest:
        chosen = settings or usual
        for name, value in chosen.to_environment().items():
            monkeypatch.setenv(name, value)
        app = AppTest.from_function(_script, args=(path,), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        for name, value in ({"chosen_collection": "samples"} | (state or {})).items():
            app.session_state[name] = value
        app.run()
        assert not app.exception
        return app

    return look


@pytest.fixture
def empty_settings(tmp_path: Path) -> Settings:
    """A library without a collection."""
    Library.open(tmp_path / "empty").close()
    return Settings(library=str(tmp_path / "empty"), device="cpu")


@pytest.fixture
def app_of() -> Callable[..., AppTest]:
    """`app_of("raise …", again=False)`: what the page shows when these lines run inside it."""

    def look(lines: str, *, again: bool = False) -> AppTest:
        body = "".join(f"    {line}\n" for line in lines.splitlines())
        return AppTest.from_string(
            f"from nearsay.app.ui.errors import showing_errors\nwith showing_errors(again={again}):\n{body}"
        ).run()

    return look


@pytest.fixture
def whole_page(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """`whole_page(read_only=True)`: all of the page, with its menu, over the test's library."""
    return lambda **changes: _whole_page(replace(settings, **changes), monkeypatch)


def _whole_page(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    script = Path(application.__file__).parent / "entry" / "streamlit_script.py"
    app = AppTest.from_file(str(script), default_timeout=60).run()
    assert not app.exception
    return app


def _script(path: str) -> None:
    """AppTest runs this function's text by itself."""
    import streamlit as st

    from nearsay.app.ui.application import show_page
    from nearsay.app.ui.settings import Settings

    st.session_state["chosen_collection"] = st.session_state.get("chosen_collection")
    show_page(path, Settings.from_environment())


@pytest.fixture
def served(settings: Settings, tmp_path: Path) -> Iterator["Served"]:
    """`nearsay ui` over the test's library."""
    with Served(settings, tmp_path / "server.log") as server:
        yield server


@pytest.fixture(scope="module")
def served_to_all(
    made_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., "Served"]]:
    """`served_to_all(prepare)`: one for a module whose tests write nothing; `prepare` adds to its library."""
    folder = tmp_path_factory.mktemp("served")
    library = Path(shutil.copytree(made_library, folder / "library"))
    with contextlib.ExitStack() as stack:

        def serve(prepare: Callable[[Path], object]) -> Served:
            prepare(library)
            settings = Settings(library=str(library), device="cpu")
            return stack.enter_context(Served(settings, folder / "server.log"))

        yield serve


@pytest.fixture
def serve(settings: Settings, tmp_path: Path) -> Iterator[Callable[..., "Served"]]:
    """`serve("--host", "search.example.org", read_only=True)`: a server with these options."""
    with contextlib.ExitStack() as stack:

        def begin(*words: str, **changes: Any) -> Served:
            server = Served(replace(settings, **changes), tmp_path / "server.log", *words)
            return stack.enter_context(server)

        yield begin


_PRINTED = re.compile(r"nearsay is at (\S+?)(?:/\?token=(\S+))? ")


class Served(contextlib.AbstractContextManager["Served"]):
    """A process of `nearsay ui`, which finds a free port and keeps it; it ends with the context."""

    def __init__(self, settings: Settings, log: Path, *words: str) -> None:
        command = [sys.executable, "-m", "nearsay.app.cli", "ui", "--no-browser", "--device", "cpu"]
        command += ["--library", settings.library] + ["--read-only"] * settings.read_only
        with log.open("wb") as output:
            self._process = subprocess.Popen([*command, *words], stdout=output, stderr=subprocess.STDOUT)
        self.library, self.pid, self._log = Path(settings.library), self._process.pid, log
        until = time.monotonic() + 300
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self._stop()
                raise RuntimeError(f"nearsay ui does not answer; it said:\n{self.said()}")
            self._process_breathes()

    def _answers(self) -> bool:
        printed = _PRINTED.search(self.said())
        if printed is None:
            return False
        self.address, self.token = printed[1], printed[2]  # None: no address lets in by itself
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}/_stcore/health"):  # noqa: S310
            return True
        return False

    def said(self) -> str:
        """What it has printed so far."""
        return self._log.read_text("utf-8", "replace")

    def files(self) -> list[str]:
        """What the server has open."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                found.append(str(link.readlink()))
        self._process_breathes()
        return found

    def _process_breathes(self) -> None:
        try:
            self._process.wait(0.1)
        except subprocess.TimeoutExpired:
            return

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def browsers() -> Iterator[Callable[..., "object"]]:
    """`browsers(width=1400, height=1000, dark=False)`: another headless Chromium, closed with the test.

    It can reach this machine alone, so that a page that needs any other address fails.
    """
    opened = []

    def open_browser(width: int = 1400, height: int = 1000, *, dark: bool = False) -> object:
        opened.append(_chromium(width, height, dark=dark))
        return opened[-1]

    yield open_browser
    for browser in opened:
        browser.quit()


def _chromium(width: int, height: int, *, dark: bool):
    webdriver = pytest.importorskip("selenium.webdriver")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        _missing(
            "Chromium and chromedriver are not installed; on Debian: apt install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    return browser


def _missing(what: str) -> None:
    import os

    if os.environ.get("NEARSAY_REQUIRE_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


# What Streamlit draws with comes script by script, a skeleton in the place of each that is still fetched; a
# shortcut, or a form's button, is registered only after it is drawn: once the browser has nothing else to do.
# The page that asks for a password is none of Streamlit's, which all have a root.
_STILL = """
const done = arguments[arguments.length - 1]
const still = () => !document.getElementById('root') || (
    document.querySelector('[data-testid=stApp]')?.getAttribute('data-test-script-state') === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stAppSkeleton]')
)
if (still()) requestIdleCallback(() => done(still()), {timeout: 5000})
else done(false)
"""
_PRESS = """
const named = each => {
    const copy = each.cloneNode(true)  // the name of an icon is text too
    copy.querySelectorAll('[data-testid=stIconMaterial]').forEach(icon => icon.remove())
    return copy.textContent.trim()
}
const every = [...document.querySelectorAll('button, a, label')]
const shown = every.filter(each => !each.disabled && each.offsetParent)
const found = shown.filter(each => named(each) === arguments[0])
if (!found.length) return false
found[0].scrollIntoView({block: 'center'})
found[0].click()
return true
"""


class Visitor:
    """Somebody at a browser, who waits for what they look for, and sees only text.

    What Streamlit draws comes piece by piece and is drawn anew at any time, so nothing is looked for once:
    every method waits until it finds what it wants. What is done to a page whose script runs, or of which a
    part is still fetched, may be lost, so whatever is pressed, typed or given waits until the page is still.
    """

    def __init__(self, browser: Any, server: Served) -> None:
        self.browser, self._server, self.address = browser, server, server.address

    def goes_to(self, page: str) -> None:
        """With the token that the server printed, where it did."""
        token = self._server.token
        more = f"{'&' if '?' in page else '?'}token={token}" if token else ""
        self.browser.get(f"{self.address}/{page}{more}")

    def sees(self, text: str, seconds: float = 180.0) -> None:
        self.until(lambda _: text in self.text(), f"'{text}' is not shown", seconds)

    def sees_element(self, selector: str, count: int | None = None) -> None:
        """At least one of these, or so many."""

        def seen(at: Any) -> bool:
            script = "return document.querySelectorAll(arguments[0]).length"
            found = int(at.execute_script(script, selector))
            return found == count if count is not None else found > 0

        self.until(seen, f"there is no {selector}" if count is None else f"there are not {count} {selector}")

    def finds(self, expression: str) -> Any:
        """What an expression of JavaScript gives once that is something."""
        return self.until(lambda at: at.execute_script(f"return {expression}"), f"{expression} gives nothing")

    def acts(self, act: Callable[[Any], Any], otherwise: str) -> Any:
        """What this gives once that is something, tried only while the page is still."""
        return self.until(lambda at: at.execute_async_script(_STILL) and act(at), otherwise)

    def unfolds(self, text: str) -> None:
        """What is folded away under a line with this text."""
        opens = "const all = [...document.querySelectorAll('summary')]\n"
        opens += "const own = all.find(each => each.innerText.includes(arguments[0]))\n"
        opens += "own?.click()\nreturn Boolean(own)"
        self.acts(lambda at: at.execute_script(opens, text), f"'{text}' cannot be unfolded")

    def presses(self, text: str) -> None:
        """The button, link or choice of this name."""
        self.acts(lambda at: at.execute_script(_PRESS, text), f"there is no button '{text}'")

    def strikes(self, shortcut: str) -> None:
        """The key, or "ctrl+enter", that a button shows as its own."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        names = shortcut.split("+")
        shown = " + ".join(name.capitalize() for name in names)
        button = f"button:not(:disabled) [aria-label='Shortcut {shown}']"
        self.acts(lambda at: at.find_elements("css selector", button), f"no button has the key {shortcut}")
        keys = [getattr(Keys, {"ctrl": "CONTROL"}.get(name, name.upper()), name) for name in names]
        actions = ActionChains(self.browser)
        for key in keys:
            actions.key_down(key)
        for key in reversed(keys):
            actions.key_up(key)
        actions.perform()

    def types(self, label: str, text: str, *, enter: bool = True) -> None:
        from selenium.webdriver.common.keys import Keys

        def typed(at: Any) -> bool:
            field = at.find_element(
                "css selector", f"input[aria-label='{label}'], textarea[aria-label='{label}']"
            )
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(text, Keys.ENTER if enter else Keys.TAB)
            return True

        self.acts(typed, f"there is no field '{label}'")

    def gives(self, *files: Path, into: str = "") -> None:
        """Files to the first place for some, or to that with this label."""
        place = "return [...document.querySelectorAll('[data-testid=stFileUploader]')].find("
        place += "each => each.innerText.trim().startsWith(arguments[0]))?.querySelector('input[type=file]')"

        def given(at: Any) -> bool:
            found = at.execute_script(place, into)
            if found is None:
                return False
            found.send_keys("\n".join(map(str, files)))
            return True

        self.acts(given, "there is no place for files")

    def is_at(self, part: str) -> None:
        """The address has this part."""
        self.until(lambda at: part in at.current_url, f"'{part}' is not in the address")

    def is_still(self) -> None:
        """The page has run to its end, and all of it is drawn."""
        self.acts(lambda _: True, "the page is still running")

    def text(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    def titles(self, count: int) -> list[str]:
        """Of so many results."""
        script = "return [...document.querySelectorAll('.ns-title')].map(each => each.innerText)"

        def seen(at: Any) -> list[str] | None:
            found = list(at.execute_script(script))
            return found if len(found) == count else None

        return list(self.until(seen, f"there are not {count} results"))

    def until(self, true: Callable[[Any], Any], otherwise: str, seconds: float = 120.0) -> Any:
        """What this gives once that is something; AssertionError with what is read by then."""
        from selenium.common.exceptions import TimeoutException, WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.browser, seconds, 0.2, ignored_exceptions=[WebDriverException])
        try:
            return waiting.until(true)
        except TimeoutException as error:
            read = f"{self.browser.current_url}, where this is read:\n{self.text()}"
            raise AssertionError(f"{otherwise} at {read}\nThe server said:\n{self._server.said()}") from error


@pytest.fixture
def visitors(browsers: Callable[..., Any], served: Served) -> Callable[..., Visitor]:
    """`visitors(width=1400, height=1000, dark=False)`: somebody at a browser of their own, at the page."""
    return lambda **kind: Visitor(browsers(**kind), served)


@pytest.fixture
def visitor(visitors: Callable[..., Visitor]) -> Visitor:
    """Somebody at a browser, at the page over the test's library."""
    return visitors()


@pytest.fixture
def a_hit() -> Callable[..., Hit]:
    """`a_hit(rank=2, text="…")`: a hit of which only what matters is said."""

    def make(
        *,
        rank: int = 1,
        score: float = 0.6,
        id_: str = "a",
        title: str = "A title",
        text: str = "A text.",
        metadata: dict[str, JsonValue] | None = None,
        scores: HitScores | None = None,
        passage: int = 0,
    ) -> Hit:
        return Hit(
            rank=rank,
            score=score,
            id=id_,
            title=title,
            text=text,
            metadata=metadata or {},
            source=None,
            passage=passage,
            start=0,
            end=len(text),
            lineage=Lineage("words", "f" * 8, 1, "exact", ()),
            scores=scores or HitScores(dense=score),
        )

    return make
