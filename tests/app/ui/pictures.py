"""Pictures of every page over the sample corpus, for the walk in docs/ and the README.

    python tests/app/ui/pictures.py [--out docs/pictures] [--only NAME …]

Makes a library with the sample corpus, clusters, a map, judgements and a short training in a temporary
folder, serves it, and takes each picture in headless Chromium. Needs chromium and chromedriver, and some
five minutes. A picture is taken when nothing on its page is at work any more.
"""

import argparse
import contextlib
import io
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

from nearsay.data.samples import sample_file
from nearsay.indexer import Library

ROOT = Path(__file__).parents[3]
QUERY = "my puppy pulls on the leash"
_NEARSAY = (sys.executable, "-m", "nearsay.app.cli")
WIDE, PHONE = (1280, 860), (390, 844)


@dataclass(frozen=True)
class Picture:
    """One page, as it is to be seen."""

    name: str
    page: str
    query: dict[str, str] = field(default_factory=dict)
    waits_for: str = "[data-testid=stMain] h1"  # a selector of what has to be there
    size: tuple[int, int] = WIDE
    dark: bool = False
    scroll: int = 0  # pixels
    acts: Callable[[webdriver.Chrome], None] | None = None  # what somebody does there first


_IN_VIEW = """
const root = [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')]
    .map(each => each.shadowRoot).find(each => each?.getElementById('inside')?.dataset.edges);
return Boolean(root) && (() => { %s; return true })()
"""


def _soon(browser: webdriver.Chrome, script: str) -> None:
    """Run it once what it needs is there."""
    WebDriverWait(browser, 90).until(lambda at: at.execute_script(script))


def look_inside(browser: webdriver.Chrome) -> None:
    """Press the button, leave [CLS] and [SEP] out, take one head, and freeze the word 'bank'."""
    _soon(
        browser,
        "const found = [...document.querySelectorAll('button')].find(e => e.innerText === 'Look inside')\n"
        "found?.click(); return Boolean(found)",
    )
    _soon(browser, _IN_VIEW % "root.getElementById('special').click()")
    _soon(browser, _IN_VIEW % "root.getElementById('from').children[5].firstChild.click()")
    _soon(browser, "return document.querySelectorAll('.ns-kwic u').length > 0")


def look_beside(browser: webdriver.Chrome) -> None:
    """The same with the trained encoder beside it, and the heads that changed."""
    field = WebDriverWait(browser, 90).until(
        lambda at: at.find_element("css selector", "[data-testid=stSelectbox] input[aria-label*='Beside']")
    )
    field.send_keys("paraphrases")
    time.sleep(0.5)
    field.send_keys("\ue007")
    time.sleep(2)
    look_inside(browser)
    label = "[...document.querySelectorAll('label')].find(e => e.innerText.startsWith('Compare over'))"
    _soon(browser, f"const found = {label}; found?.querySelector('input').click(); return Boolean(found)")
    _soon(browser, "return Boolean(document.querySelector('.ns-heads'))")
    browser.execute_script("document.activeElement.blur()")  # a caret that blinks is never still


PICTURES = (
    Picture("search", "", {"q": QUERY}, ".ns-card mark"),
    Picture("search-dark", "", {"q": QUERY, "k": "5"}, ".ns-card mark", dark=True),
    Picture("search-phone", "", {"q": QUERY, "k": "5"}, ".ns-card mark", PHONE),
    Picture("compare", "compare", {"q": QUERY, "right-mode": "lexical"}, ".ns-item"),
    Picture("map", "explore", {"view": "map"}, "[data-testid=stBidiComponentIsolated]"),
    Picture("map-dark", "explore", {"view": "map"}, "[data-testid=stBidiComponentIsolated]", dark=True),
    Picture("clusters", "explore", {"view": "clusters"}),
    Picture("duplicates", "explore", {"view": "duplicates", "dup_cosine": "0.8"}),
    Picture("time", "explore", {"view": "time"}, "canvas, svg.marks"),
    Picture("unusual", "explore", {"view": "unusual"}),
    Picture("collections", "collections", {"see": "Overview"}),
    Picture("add", "collections", {"see": "Add"}),
    Picture("documents", "collections", {"see": "Documents"}),
    Picture("generations", "collections", {"see": "Generations"}),
    Picture("health", "collections", {"see": "Health"}),
    Picture("encoders", "encoders", {"part": "List"}),
    Picture("try-encoder", "encoders", {"part": "Try an encoder"}),
    Picture("inside", "encoders", {"part": "Inside"}, size=(1280, 1240), acts=look_inside),
    Picture("inside-beside", "encoders", {"part": "Inside"}, size=(1280, 2720), acts=look_beside, dark=True),
    Picture("training", "training", {"train": "Sentence encoder"}),
    Picture("jobs", "jobs"),
    Picture("job", "jobs", {"job": "1"}),
)


def nearsay(*words: str, library: Path) -> None:
    """Give a command over the library."""
    subprocess.run([*_NEARSAY, *words, "--library", str(library)], check=True, stdout=subprocess.DEVNULL)


def create_library(library: Path) -> None:
    """What the pictures show."""
    nearsay("demo", library=library)
    nearsay("explore", "map", "samples", "--no-file", library=library)
    nearsay("encoders", "inside", "sample", "samples", "--layer", "4", library=library)
    with Library.open(library) as opened:
        samples = opened.collection("samples")
        for hit in samples.search(QUERY, k=4):
            samples.judgements.add(QUERY, hit, hit.rank != 3)
    train = ["train", "sentence", str(sample_file("scored-pairs")), "--epochs", "2", "--batch", "16"]
    out = str(library / "encoders" / "paraphrases")
    start = [*_NEARSAY, "jobs", "start", "--title", "Train paraphrases", "--wait", "--library", str(library)]
    subprocess.run([*start, *train, "--out", out], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def served(library: Path) -> Iterator[str]:
    """The address of the page over the library as it is printed, with its token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*_NEARSAY, "ui", "--library", str(library), "--no-browser"]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5).close()
                break
            time.sleep(0.2)
        yield str(process.stdout and process.stdout.readline()).split()[3]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def chromium() -> webdriver.Chrome:
    """A headless browser in which what moves is soon still."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-prefers-reduced-motion"):
        options.add_argument(argument)
    # The driver is named: else Selenium looks for one outside, and tells that it did.
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def take(browser: webdriver.Chrome, address: str, picture: Picture, out: Path) -> None:
    """Take one picture, with few colours: a third of the bytes, and nothing that the eye would miss."""
    width, height = picture.size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if picture.dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    query = urllib.parse.urlencode({"collection": "samples"} | picture.query)
    browser.get(f"{address}/{picture.page}?{query}")
    still = (
        "return !!document.querySelector(arguments[0]) && "
        "!document.querySelector('[data-testid=stStatusWidget], [data-testid=stSkeleton], [data-stale=true]')"
    )
    try:
        WebDriverWait(browser, 90).until(lambda at: at.execute_script(still, picture.waits_for))
    except TimeoutException as error:
        raise SystemExit(f"{picture.name}: no {picture.waits_for} at {browser.current_url}") from error
    if picture.acts is not None:
        picture.acts(browser)
    settled, before = 0, b""
    while settled < 3:  # several looks in a row are alike
        time.sleep(0.4)
        now = browser.get_screenshot_as_png()
        settled, before = (settled + 1, now) if now == before else (0, now)
    with Image.open(io.BytesIO(before)) as shot:
        # Of another method, or without the means, clusters of the map would share a colour.
        few = shot.convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE, kmeans=5)
        few.save(out / f"{picture.name}.png", optimize=True)
    sys.stderr.write(f"{picture.name}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--library", type=Path, help="one that was made for pictures before")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        library = chosen.library or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "library"
        if not library.exists():
            create_library(library)
        printed = stack.enter_context(served(library))
        browser = chromium()
        stack.callback(browser.quit)
        browser.get(printed)
        address = printed.partition("/?")[0]
        take(browser, address, PICTURES[0], chosen.out)  # loads the encoder; taken again below
        for picture in PICTURES:
            if chosen.only is None or picture.name in chosen.only:
                take(browser, address, picture, chosen.out)


if __name__ == "__main__":
    main()
