"""The map in a real browser: seen, moved, searched, selected from; nothing fetched from elsewhere."""

import base64
import io
import json
import pickle
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from free_port import free_port
from PIL import Image

from nearsay.app.ui.map_component.show_map import packed_map
from nearsay.indexer.maps.drawing import Drawing

FIND = """
const roots = [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')].map(e => e.shadowRoot);
const root = roots.find(each => each && each.getElementById('map'));
"""
FEW, MANY = 60, 1_500  # points; the many are more than Streamlit thinks worth keeping in the browser
ESCAPE, ENTER, RIGHT, CONTROL = "\ue00c", "\ue007", "\ue014", "\ue009"
AROUND_IT = ((8.8, -1.2), (11.2, -1.2), (11.2, 1.2), (8.8, 1.2))


@pytest.fixture(scope="module")
def served_map(heaps: Callable[..., Drawing], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page with the map of three heaps, of as many points as the address asks for."""
    folder = tmp_path_factory.mktemp("maps")
    for count in (FEW, MANY):
        (folder / str(count)).write_bytes(pickle.dumps(heaps(count)))
    port = free_port()
    script = Path(__file__).with_name("page_with_a_map.py")
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true"]
    command += [f"--server.port={port}", "--server.address=127.0.0.1", "--browser.gatherUsageStats=false"]
    command += ["--server.fileWatcherType=none", "--", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        soon(lambda: answers(f"http://127.0.0.1:{port}/_stcore/health"))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


class OnPage:
    """The map as somebody at the browser has it."""

    def __init__(self, browser: Any, address: str, drawn: Drawing) -> None:
        self.browser, self.drawn, self.packed = browser, drawn, packed_map(drawn)
        browser.get(f"{address}?count={len(drawn)}")
        soon(lambda: self.run("return Boolean(root && root.getElementById('map').dataset.ready)"))

    def run(self, script: str, *given: object) -> Any:
        return self.browser.execute_script(FIND + script, *given)

    def part(self, name: str) -> Any:
        return self.run("return root.getElementById(arguments[0])", name)

    @property
    def second_heap(self) -> str:
        """The passages of the second heap, as Python says them."""
        return " ".join(str(number) for number in self.drawn.ids[1::3])

    def hears(self, chosen: int | None = None, selected: str = "") -> None:
        """Waits until Python says so."""
        wanted = f"chosen: {chosen}; selected: {selected}".strip()
        soon(lambda: wanted in [each.text for each in self.browser.find_elements("css selector", ".stText")])

    def write(self, label: str, text: str) -> None:
        """Into a field of the page beside the map."""

        def written() -> bool:
            field = self.browser.find_element("css selector", f"input[aria-label={label}]")
            field.send_keys(CONTROL + "a" + CONTROL, text, ENTER)
            return True

        soon(written)

    def actions(self) -> Any:
        from selenium.webdriver.common.action_chains import ActionChains

        return ActionChains(self.browser, duration=10)

    def press(self, *keys: str) -> None:
        self.run("root.getElementById('points').focus()")
        self.actions().send_keys(*keys).perform()

    def drag(self, *places: tuple[float, float]) -> None:
        """Over places of the map, of which all is shown."""
        first, *others = (self._on_canvas(*each) for each in places)
        canvas = self.part("points")
        actions = self.actions().move_to_element_with_offset(canvas, *first).click_and_hold()
        for other in others:
            actions.move_to_element_with_offset(canvas, *other)
        actions.release().perform()

    def click(self, x: float, y: float) -> None:
        place = self._on_canvas(x, y)
        self.actions().move_to_element_with_offset(self.part("points"), *place).click().perform()

    def _on_canvas(self, x: float, y: float) -> tuple[int, int]:
        """From the middle of the canvas, pixels."""
        low, high = self.drawn.places.min(axis=0), self.drawn.places.max(axis=0)
        canvas = self.part("points")
        wide, tall = (canvas.get_property(name) for name in ("clientWidth", "clientHeight"))
        across, upwards = (np.array([wide, tall]) - 52) / (high - low)  # 26 pixels are free on each side
        stretch = min(max(upwards / across, 1 / 1.7), 1.7)
        unit = min(across, upwards / stretch)
        middle = (low + high) / 2
        return round(float((x - middle[0]) * unit)), round(float((middle[1] - y) * unit * stretch))


@pytest.fixture
def on_page(
    served_map: str, browsers: Callable[..., Any], heaps: Callable[..., Drawing]
) -> Callable[..., OnPage]:
    """Opens a browser of that kind with so many points in it."""
    return lambda count=FEW, **kind: OnPage(browsers(**kind), served_map, heaps(count))


def soon(what: Callable[[], Any]) -> Any:
    """What comes to be within two minutes; what is on the page is drawn anew meanwhile."""
    from selenium.common.exceptions import WebDriverException

    until = time.monotonic() + 120
    while True:
        try:
            if found := what():
                return found
            otherwise = "it did not come to be"
        except WebDriverException as error:
            otherwise = str(error)
        if time.monotonic() > until:
            pytest.fail(otherwise)
        time.sleep(0.05)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - this machine
            return True
    except OSError:
        return False


def picture(page: OnPage) -> Image.Image:
    """The map as it is seen."""
    return Image.open(io.BytesIO(page.part("points").screenshot_as_png)).convert("RGB")


def colours(page: OnPage) -> list[tuple[int, int, int]]:
    """The colours of the map as it is seen, the commonest first."""
    return [colour for _, colour in sorted(picture(page).getcolors(1 << 24), reverse=True)]


def differing(one: Image.Image, other: Image.Image) -> float:
    """The share of pixels that are clearly of another colour."""
    gap = np.abs(np.asarray(one, dtype=np.int16) - np.asarray(other, dtype=np.int16))
    return float((gap.max(axis=2) > 40).mean())


@pytest.mark.long
def test_what_is_drawn_around_or_clicked_comes_back_to_python(on_page: Callable[..., OnPage]) -> None:
    page = on_page()
    page.press("l")
    page.drag(*AROUND_IT, AROUND_IT[0])
    page.hears(selected=page.second_heap)
    soon(lambda: page.part("count").text == "20 selected")
    page.press(ESCAPE)
    page.hears()
    page.press("b")
    page.drag(AROUND_IT[0], AROUND_IT[2])
    page.hears(selected=page.second_heap)
    page.part("clear").click()
    page.hears()
    page.click(*page.drawn.places[59].tolist())
    page.hears(chosen=59)
    soon(lambda: "text 59 of <b>trains</b>" in page.part("card").text)
    assert not page.part("card").find_elements("css selector", "b")
    page.press(ESCAPE)
    page.hears()


@pytest.mark.long
def test_points_travel_once(on_page: Callable[..., OnPage]) -> None:
    page = on_page(MANY)
    before = received(page)
    assert any(page.packed.packed in frame for frame in before)
    page.write("Highlight", "101")
    soon(lambda: page.run("return root.getElementById('map').dataset.lit === '1'"))
    page.press("b")
    page.drag(AROUND_IT[0], AROUND_IT[2])
    page.hears(selected=page.second_heap)
    after = received(page)
    assert any(page.packed.digest.encode() in frame for frame in after), "settings name the map"
    assert not any(page.packed.packed in frame for frame in after), "the points were sent again"


def received(page: OnPage) -> list[bytes]:
    """What Streamlit sent since this was asked last; nothing else was asked for from another address."""
    events = [json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")]
    asked = [
        each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(("http://127.0.0.1", "blob:", "data:")) for url in asked)
    frames = [each["params"] for each in events if each["method"] == "Network.webSocketFrameReceived"]
    return [base64.b64decode(each["response"]["payloadData"]) for each in frames]


@pytest.mark.long
def test_the_keyboard_moves_the_map_and_streamlit_hears_no_letter_of_it(
    on_page: Callable[..., OnPage],
) -> None:
    page = on_page()
    page.press("0")
    before = picture(page)
    page.press(RIGHT, "+")
    soon(lambda: differing(before, picture(page)) > 0.002)
    page.press("0")
    soon(lambda: differing(before, picture(page)) < 0.002)
    page.run("root.getElementById('search').focus()")
    page.actions().send_keys("ovens cr").perform()
    soon(lambda: page.part("found").text.startswith("0 of 60"))
    assert not page.browser.find_elements("css selector", "[role=dialog]"), "c is Streamlit's shortcut"
    page.actions().send_keys("\ue003" * 3).perform()
    soon(lambda: page.part("found").text.startswith("20 of 60"))
    soon(lambda: len(page.part("results").find_elements("css selector", "li")) == 20)


@pytest.mark.long
def test_the_map_follows_light_and_dark_and_fits_a_phone(on_page: Callable[..., OnPage]) -> None:
    page = on_page(dark=True)
    assert max(colours(page)[0]) < 64
    scheme = {"name": "prefers-color-scheme", "value": "light"}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    soon(lambda: min(colours(page)[0]) > 192)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    soon(lambda: 300 < page.part("points").rect["width"] < 390)
    soon(lambda: page.browser.execute_script("return document.documentElement.scrollWidth") == 390)
    soon(lambda: any(colour[0] - colour[2] > 100 for colour in colours(page)))
    soon(lambda: any(colour[2] - colour[0] > 60 for colour in colours(page)))  # another heap is blue


@pytest.mark.long
def test_another_map_takes_the_place_of_one_and_a_map_that_was_left_stands_as_it_stood(
    on_page: Callable[..., OnPage],
) -> None:
    page = on_page()
    page.press("b")
    page.drag(AROUND_IT[0], AROUND_IT[2])
    page.hears(selected=page.second_heap)
    page.write("Points", str(MANY))
    page.hears()
    soon(lambda: page.run("return root.getElementById('legend').textContent").count("500") == 3)
    assert page.part("count").text == ""
    assert not page.part("trouble").is_displayed()
    page.press("0")
    whole = picture(page)
    page.press("+")
    soon(lambda: differing(whole, picture(page)) > 0.01)
    before = picture(page)
    page.write("Points", "none")
    soon(lambda: page.run("return root === undefined"))
    page.write("Points", str(MANY))
    soon(lambda: page.run("return root !== undefined && Boolean(root.getElementById('map').dataset.ready)"))
    page.run("root.getElementById('points').focus()")
    soon(lambda: differing(before, picture(page)) < 0.002)
