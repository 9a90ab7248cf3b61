"""Libraries to look at, pages without a browser (AppTest), and a browser over a page that really runs."""

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
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
def _no_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No encoder is loaded beside the tests: a thread that still does so at the end takes Python down."""
    monkeypatch.setattr(opened, "_warm", lambda *_: None)


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
        for name, value in ({"collection": "samples"} | (state or {})).items():
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
            f"from nearsay.app.ui.errors import telling_errors\nwith telling_errors(again={again}):\n{body}"
        ).run()

    return look


@pytest.fixture
def first_start(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], AppTest]:
    """`first_start(folder)`: all of the page over a folder in which there is no library."""

    def look(folder: Path) -> AppTest:
        return _whole_page(Settings(library=str(folder), device="cpu"), monkeypatch)

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

    st.session_state["collection"] = st.session_state.get("collection")
    show_page(path, Settings.from_environment())


@pytest.fixture
def served(settings: Settings, server_log: Path) -> Iterator[str]:
    """The address of the page over the test's library, as `nearsay ui` serves it."""
    with_server = Served(settings, server_log)
    try:
        yield with_server.address
    finally:
        with_server.stop()


@pytest.fixture
def serve(settings: Settings, server_log: Path) -> Iterator[Callable[..., "Served"]]:
    """`serve("--host", "search.example.org", read_only=True)`: a server with these options."""
    begun = []

    def begin(*words: str, **changes: Any) -> Served:
        begun.append(Served(replace(settings, **changes), server_log, *words))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


@pytest.fixture
def server_log(tmp_path: Path) -> Path:
    """What the server says."""
    return tmp_path / "server.log"


_PRINTED = re.compile(r"nearsay is at (\S+?)(?:/\?token=(\S+))? ")


class Served:
    """A process of `nearsay ui`."""

    def __init__(self, settings: Settings, log: Path, *words: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.port, self.address = port, f"http://localhost:{port}"
        command = [
            sys.executable,
            "-m",
            "nearsay.app.cli",
            "ui",
            "--library",
            settings.library,
            "--no-browser",
        ]
        command += ["--port", str(port), "--device", "cpu"] + ["--read-only"] * settings.read_only
        with log.open("wb") as output:
            self._process = subprocess.Popen([*command, *words], stdout=output, stderr=subprocess.STDOUT)
        self.pid, self._log = self._process.pid, log
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"nearsay ui ended with {self._process.returncode}")
            try:
                with urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=5):  # noqa: S310
                    return
            except OSError:
                self._process_breathes()
        raise RuntimeError("nearsay ui did not answer within a minute")

    @property
    def token(self) -> str | None:
        """What the printed address lets in with."""
        found = _PRINTED.search(self._log.read_text("utf-8"))
        assert found
        return found[2]

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

    def stop(self) -> None:
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


_IDLE = """
const app = document.querySelector('[data-testid=stApp]')
return app?.getAttribute('data-test-script-state') === 'notRunning'
"""
_SENDS = """
const form = arguments[0].closest('[data-testid=stForm]')
return !form || Boolean(form.querySelector('[data-testid=stFormSubmitButton] button'))
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
    every method waits until it finds what it wants.
    """

    def __init__(self, browser: Any, address: str, log: Path) -> None:
        self.browser, self.address, self._log = browser, address, log

    def goes_to(self, page: str) -> None:
        """With the token that the server printed, where it did."""
        token = _PRINTED.search(self._log.read_text("utf-8"))[2]
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

    def unfolds(self, text: str) -> None:
        """What is folded away under a line with this text."""
        opens = "const all = [...document.querySelectorAll('summary')]\n"
        opens += "const own = all.find(each => each.innerText.includes(arguments[0]))\n"
        opens += "own?.click()\nreturn Boolean(own)"
        self.until(lambda at: at.execute_script(opens, text), f"'{text}' cannot be unfolded")

    def presses(self, text: str) -> None:
        """The button, link or choice of this name."""
        self.until(lambda at: at.execute_script(_PRESS, text), f"there is no button '{text}'")

    def types(self, label: str, text: str, *, enter: bool = True) -> None:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        def typed(at: Any) -> bool:
            field = at.find_element(By.CSS_SELECTOR, f"input[aria-label='{label}']")
            if not at.execute_script(
                _SENDS, field
            ):  # in a form Enter does nothing before its button is there
                return False
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(text, Keys.ENTER if enter else Keys.TAB)
            return True

        self.until(typed, f"there is no field '{label}'")

    def gives(self, *files: Path, into: str = "") -> None:
        """Files to the first place for some, or to that with this label."""
        place = "return [...document.querySelectorAll('[data-testid=stFileUploader]')].find("
        place += "each => each.innerText.trim().startsWith(arguments[0]))?.querySelector('input[type=file]')"

        def given(at: Any) -> bool:
            # Streamlit forgets a file that is given in the moment in which it begins to run the page again.
            if not at.execute_script(_IDLE):
                return False
            found = at.execute_script(place, into)
            if found is None:
                return False
            found.send_keys("\n".join(map(str, files)))
            return True

        self.until(given, "there is no place for files")

    def is_at(self, part: str) -> None:
        """The address has this part."""
        self.until(lambda at: part in at.current_url, f"'{part}' is not in the address")

    def is_still(self) -> None:
        """The page has run to its end."""
        self.until(lambda at: at.execute_script(_IDLE), "the page is still running")

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
            said = self._log.read_text("utf-8", "replace")
            raise AssertionError(f"{otherwise} at {read}\nThe server said:\n{said}") from error


@pytest.fixture
def visitors(browsers: Callable[..., Any], served: str, server_log: Path) -> Callable[..., Visitor]:
    """`visitors(width=1400, height=1000, dark=False)`: somebody at a browser of their own, at the page."""
    return lambda **kind: Visitor(browsers(**kind), served, server_log)


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
