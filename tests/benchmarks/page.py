"""How long does somebody at the browser wait?

Over a library that is there already, in headless Chromium on the same machine: from the start of `nearsay ui`
to the first page (its heading is drawn), from a question typed there at once to its first result, and to all
of them shaded; from a question to its first result, in the same session with the encoder loaded, and to all
of them shaded; and from the address to the page for every page. The first look at each, which opens what it
needs, is told by itself. Over a library with one sentence: from the press that adds a file of two lines to
"can be searched".

    python tests/benchmarks/page.py --library FOLDER --collection NAME [--rounds 5] [--query WORDS …]
        [--only-start] [--out FILE.json]

Needs chromium and chromedriver.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import commit, machine
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from nearsay.indexer import Library

QUERIES = (
    "how to tell whether two sentences mean the same",
    "learning from few examples",
    "which languages are hard to parse",
    "words that change their meaning over time",
    "machines that answer questions about a text",
    "finding names of people in old letters",
)
PAGES = (
    "",
    "compare",
    "explore?view=map",
    "explore?view=clusters",
    "explore?view=duplicates",
    "explore?view=time",
    "explore?view=unusual",
    "collections?see=Overview",
    "collections?see=Documents",
    "collections?see=Generations",
    "collections?see=Health",
    "encoders",
    "training",
    "jobs",
)
HEADING = "return !!document.querySelector('[data-testid=stMain] h1')"
CARD = "return !!document.querySelector('.ns-card')"
SHADED = "return document.querySelectorAll('.ns-card mark').length > 0"
IDLE = """
const app = document.querySelector('[data-testid=stApp]')
const waiting = document.querySelector('[data-testid=stMain] [data-testid=stSkeleton]')
return app?.getAttribute('data-test-script-state') === 'notRunning' && !waiting
"""  # the sign that a page is at work comes late, and stays long: it tells nothing


@contextlib.contextmanager
def served(library: Path) -> Iterator[tuple[str, float]]:
    """The address that is printed, with its token, and when the process was started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nearsay.app.cli", "ui", "--library", str(library), "--no-browser"]
    begun = time.perf_counter()
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(3000):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5).close()
                break
            time.sleep(0.02)
        yield str(server.stdout and server.stdout.readline()).split()[3], begun
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def chromium() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,900"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def until(browser: webdriver.Chrome, script: str, *values: object) -> None:
    WebDriverWait(browser, 120, 0.02).until(lambda at: at.execute_script(script, *values))


def first_looks(library: Path, collection: str, rounds: int, query: str) -> dict[str, list[float]]:
    """Seconds from the start of the process to the first page, and of the first search, asked at once."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        browser = chromium()
        try:
            with served(library) as (address, begun):
                browser.get(f"{address}{'&' if '?' in address else '?'}collection={collection}")
                until(browser, HEADING)
                page = time.perf_counter()
                WebDriverWait(browser, 120, 0.02, [WebDriverException]).until(lambda at: typed(at, query))
                asked = time.perf_counter()
                until(browser, CARD)
                card = time.perf_counter()
                until(browser, SHADED)
                until(browser, IDLE)
                shaded = time.perf_counter()
        finally:
            browser.quit()
        for name, seconds in (
            ("start to first page", page - begun),
            ("first page to a field that takes a question", asked - page),
            ("a question asked at once to its first result", card - asked),
            ("a question asked at once to all shaded", shaded - asked),
        ):
            found.setdefault(name, []).append(seconds)
    return found


def typed(browser: webdriver.Chrome, query: str) -> bool:
    """Write a question into the search box and press Enter."""
    browser.find_element(By.CSS_SELECTOR, "input[aria-label=Search]").send_keys(query, Keys.ENTER)
    return True


def measured(library: Path, collection: str, rounds: int, queries: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of every look."""
    found: dict[str, list[float]] = {}
    with served(library) as (printed, _):
        address = printed.partition("/?")[0]
        browser = chromium()
        try:
            browser.get(printed)  # with its token
            until(browser, HEADING)
            for number in range(rounds + 1):  # the first opens everything, and is told by itself
                for place, query in enumerate(queries):
                    first = "" if number else "the first " if not place else "others at first: "
                    asked = urllib.parse.urlencode({"collection": collection, "q": f"{query} {number}"})
                    begun = time.perf_counter()
                    browser.get(f"{address}/?{asked}")
                    until(browser, CARD)
                    card = time.perf_counter() - begun
                    until(browser, SHADED)
                    until(browser, IDLE)
                    found.setdefault(f"{first}address to first result", []).append(card)
                    found.setdefault(f"{first}address to all shaded", []).append(time.perf_counter() - begun)
                for page in PAGES:
                    begun = time.perf_counter()
                    browser.get(f"{address}/{page}{'&' if '?' in page else '?'}collection={collection}")
                    until(browser, HEADING)
                    until(browser, IDLE)
                    name = f"/{page}" if number else f"the first /{page}"
                    found.setdefault(name, []).append(time.perf_counter() - begun)
        finally:
            browser.quit()
    return found


OFFERED = """
const every = [...document.querySelectorAll('button')]
const found = every.find(each => !each.disabled && each.innerText.includes(arguments[0]))
return found
"""
ADDS = OFFERED.replace("return found", "found?.click(); return Boolean(found)")
FIELD = "return !!document.querySelector('input[type=file]')"
SAID = "return document.querySelector('[data-testid=stMain]')?.innerText.includes(arguments[0])"


def small(folder: Path) -> Path:
    """A library with one sentence in it."""
    with Library.open(folder / "library") as library:
        library.collection("first").add_rows([{"text": "A dog sleeps below the roof."}])
        return Path(library.store.folder)


def additions(rounds: int) -> dict[str, list[float]]:
    """Seconds from the press that adds a small file to its being searchable, each to a new collection."""
    found = []
    with tempfile.TemporaryDirectory() as folder, served(small(Path(folder))) as (printed, _):
        browser = chromium()
        try:
            browser.get(printed)
            until(browser, HEADING)
            for number in range(rounds):
                file = Path(folder) / f"notes{number}.txt"
                file.write_text(f"A cat sleeps on roof {number}.\nThe committee approved budget {number}.\n")
                browser.get(f"{printed.partition('/?')[0]}/collections?see=Add")
                until(browser, IDLE)
                until(browser, FIELD)
                browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(file))
                until(browser, SAID, "as they would be added")
                until(browser, IDLE)
                name = browser.find_element(By.CSS_SELECTOR, "input[aria-label='Name of the new collection']")
                name.send_keys(f"notes{number}", Keys.ENTER)
                until(browser, OFFERED, f"Add notes{number}.txt to notes{number}")
                until(browser, IDLE)
                begun = time.perf_counter()
                until(browser, ADDS, f"Add notes{number}.txt to notes{number}")
                until(browser, SAID, f"notes{number} can be searched")
                found.append(time.perf_counter() - begun)
        finally:
            browser.quit()
    return {"adding a small file, from the press": found}


def summed(found: list[float]) -> dict[str, Any]:
    figures = {"median": statistics.median(found), "least": min(found), "most": max(found)}
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--collection", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--query", action="append", help="asked instead of those about language research")
    parser.add_argument("--only-start", action="store_true", help="the first page and its first search alone")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    queries = chosen.query or QUERIES
    with Library.open(chosen.library) as library:
        passages = library.collection(chosen.collection).overview().passages
    seconds = first_looks(chosen.library, chosen.collection, chosen.rounds, queries[0])
    if not chosen.only_start:
        seconds |= additions(chosen.rounds)
        seconds |= measured(chosen.library, chosen.collection, chosen.rounds, queries)
    result = {
        "question": "seconds that somebody at the browser waits",
        "commit": commit(),
        "machine": machine() | {"streamlit": version("streamlit")},
        "passages": passages,
        "rounds": chosen.rounds,
        "load": [round(value, 2) for value in os.getloadavg()],
        "seconds": {name: summed(found) for name, found in seconds.items()},
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
