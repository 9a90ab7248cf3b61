"""What passes the page's door: asked of the door alone, with nothing behind it."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from nearsay.app.ui import door as module
from nearsay.app.ui.door import Door
from nearsay.app.ui.settings import Access, hashed

PASSWORD = "a quiet harbour"  # noqa: S105
NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.body == "inside"

    @property
    def cookie(self) -> str:
        return self.headers["set-cookie"].partition(";")[0]


@dataclass
class Behind:
    """Stands for Streamlit: answers everything, and remembers what came to it."""

    came: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.came.append(scope)
        if scope["type"] == "websocket":
            while True:
                self.messages.append(await receive())
                if self.messages[-1]["type"] == "websocket.disconnect":
                    return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})


@pytest.fixture(scope="session")
def kept() -> str:
    return hashed(PASSWORD)


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def locked(behind: Behind, kept: str) -> Door:
    return Door(behind, Access((*NAMES, "docs.example.org"), ("docs.example.org",), password=kept))


@pytest.fixture
def alone(behind: Behind) -> Door:
    return Door(behind, Access(NAMES, token="the-token", ticket="the-ticket"))


@pytest.fixture
def read_only(behind: Behind) -> Door:
    return Door(behind, Access(NAMES, read_only=True))


def ask(
    door: Door,
    url: str = "/",
    method: str = "GET",
    *,
    kind: str = "http",
    body: bytes = b"",
    client: str = "127.0.0.1",
    server: str = "127.0.0.1",
    scheme: str = "http",
    messages: tuple[Any, ...] = (),
    **headers: str,
) -> Answer:
    """What the door answers; headers by their names with _ for -; messages: of a websocket, or what to do."""
    path, _, query = url.partition("?")
    given = {"host": "localhost:8501", "accept": "text/html"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": (client, 50_000),
        "server": (server, 8501),
        "scheme": scheme,
    } | ({"method": method} if kind == "http" else {})
    answer, waiting = Answer(), list(messages)

    async def receive() -> dict[str, Any]:
        if kind == "http":
            return {"type": "http.request", "body": body, "more_body": False}
        while waiting and callable(waiting[0]):
            waiting.pop(0)()
        return waiting.pop(0) if waiting else {"type": "websocket.disconnect", "code": 1000}

    async def send(message: dict[str, Any]) -> None:
        answer.sent.append(message)
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers |= {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            answer.body += message.get("body", b"").decode()

    asyncio.run(door(scope, receive, send))
    return answer


def sign_in(door: Door, password: str = PASSWORD, url: str = "/", **more: str) -> Answer:
    more = {"origin": "http://localhost:8501"} | more
    return ask(door, url, "POST", body=f"secret={quote(password)}".encode(), **more)


EVERYTHING = [
    ("GET", "/"),
    ("GET", "/search?q=rain"),
    ("HEAD", "/jobs"),
    ("GET", "/static/js/index.js"),
    ("GET", "/media/0123.csv"),
    ("GET", "/component/map/index.html"),
    ("GET", "/_stcore/bidi-components/map/index.js"),
    ("GET", "/_stcore/host-config"),
    ("GET", "/_stcore/metrics"),
    ("PUT", "/_stcore/upload_file/a/b"),
    ("DELETE", "/_stcore/upload_file/a/b"),
    ("POST", "/_stcore/upload_file/a/b"),
    ("OPTIONS", "/_stcore/upload_file/a/b"),
    ("GET", "/auth/login"),
    ("GET", "//_stcore/health"),
    ("GET", "/_stcore/health/"),
]


@pytest.mark.parametrize(("method", "url"), EVERYTHING)
@pytest.mark.parametrize("which", ["locked", "alone"])
def test_nothing_but_the_health_is_answered_to_who_is_not_let_in(
    request: pytest.FixtureRequest, behind: Behind, which: str, method: str, url: str
) -> None:
    door = request.getfixturevalue(which)
    assert ask(door, url, method).status == 401
    assert ask(door, url, method, cookie="nearsay_8501=made-up").status == 401
    assert not behind.came
    assert ask(door, "/_stcore/health").passed


def test_a_websocket_is_opened_only_to_who_is_let_in(locked: Door, behind: Behind) -> None:
    refused = ask(locked, "/_stcore/stream", kind="websocket", cookie="nearsay_8501=made-up")
    assert [each["type"] for each in refused.sent] == ["websocket.close"]
    assert not behind.came
    ask(locked, "/_stcore/stream", kind="websocket", cookie=sign_in(locked).cookie)
    assert len(behind.came) == 1


def test_the_right_password_lets_in_where_one_was_going(locked: Door) -> None:
    answer = sign_in(locked, url="/explore?q=a+b%26c&k=3")
    assert (answer.status, answer.headers["location"]) == (303, "/explore?q=a+b%26c&k=3")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} < set(answer.headers["set-cookie"].split("; "))
    assert "Secure" not in answer.headers["set-cookie"]
    assert ask(locked, "/explore", cookie=answer.cookie).passed
    assert "Secure" in sign_in(locked, scheme="https").headers["set-cookie"]


@pytest.mark.parametrize("typed", ["a loud harbour", "", "\ud7ff", "x" * 9_000])
def test_no_other_password_does(locked: Door, typed: str) -> None:
    answer = sign_in(locked, typed)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "Wrong password" in answer.body
    assert sign_in(locked, "x" * 20_000).status == 413


def test_nobody_is_led_to_another_site_by_signing_in(locked: Door) -> None:
    assert sign_in(locked, url="//evil.example/notes").headers["location"] == "/evil.example/notes"
    assert sign_in(locked, url="/\\evil.example").headers["location"] == "/evil.example"


def test_wrong_passwords_make_only_their_own_address_wait(locked: Door) -> None:
    for _ in range(5):
        assert sign_in(locked, "wrong", client="192.0.2.1").status == 401
    late = sign_in(locked, client="192.0.2.1")
    assert late.status == 429
    assert int(late.headers["retry-after"]) >= 1
    assert "set-cookie" not in late.headers
    assert sign_in(locked, client="192.0.2.2").status == 303


def test_who_is_let_in_stays_so_while_its_address_has_to_wait(locked: Door) -> None:
    cookie = sign_in(locked, client="192.0.2.1").cookie
    for _ in range(9):
        sign_in(locked, "wrong", client="192.0.2.1")
    assert ask(locked, client="192.0.2.1", cookie=cookie).passed


def test_another_sites_form_tries_no_password_for_this_address(locked: Door) -> None:
    for origin in ("https://evil.example", "null"):
        assert sign_in(locked, "wrong", origin=origin).status == 403
    assert not locked.tries.made


def test_signing_out_forgets_the_browser(locked: Door, behind: Behind) -> None:
    cookie = sign_in(locked).cookie
    assert ask(locked, "/auth/logout", cookie=cookie, sec_fetch_site="cross-site").passed  # nothing of ours
    assert ask(locked, cookie=cookie).passed
    answer = ask(locked, "/auth/logout", cookie=cookie, sec_fetch_site="same-origin")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert 'nearsay_8501="";' in answer.headers["set-cookie"]
    behind.came.clear()
    assert ask(locked, cookie=cookie).status == 401
    assert not behind.came


def test_what_an_open_page_sends_after_its_browser_signed_out_comes_to_nothing(
    locked: Door, behind: Behind
) -> None:
    cookie = sign_in(locked).cookie
    token = cookie.partition("=")[2]
    press = {"type": "websocket.receive", "bytes": b"press"}
    connect = {"type": "websocket.connect"}
    messages = (connect, press, lambda: locked.signed_in.forget(token), press)
    answer = ask(locked, "/_stcore/stream", kind="websocket", cookie=cookie, messages=messages)
    assert [each["type"] for each in behind.messages] == [
        "websocket.connect",
        "websocket.receive",
        "websocket.disconnect",
    ]
    assert [each["type"] for each in answer.sent] == ["websocket.send", "websocket.close"]


def test_the_printed_token_lets_in_and_leaves_the_address(alone: Door) -> None:
    answer = ask(alone, "/explore?q=a+b&token=the-token&k=3")
    assert (answer.status, answer.headers["location"]) == (303, "/explore?q=a+b&k=3")
    assert ask(alone, "/explore?q=a+b&k=3", cookie=answer.cookie).passed
    assert ask(alone, "/?token=the-token").status == 303  # as often as one likes
    again = ask(alone, "/jobs?token=old", cookie=answer.cookie)
    assert (again.status, again.headers["location"]) == (303, "/jobs")
    assert "set-cookie" not in again.headers


def test_no_other_token_lets_in(alone: Door) -> None:
    for token in ("", "the-toke", "the-token-", "%00", "%C3%A9"):
        answer = ask(alone, f"/?token={token}")
        assert answer.status == 401
        assert "set-cookie" not in answer.headers


def test_the_token_can_be_typed(alone: Door) -> None:
    assert sign_in(alone, "another").status == 401
    assert ask(alone, cookie=sign_in(alone, " the-token ").cookie).passed


def test_what_the_opened_browser_was_given_is_good_once(alone: Door) -> None:
    assert ask(alone, "/?token=the-ticket").status == 303
    assert ask(alone, "/?token=the-ticket").status == 401


def test_a_page_that_only_reads_and_asks_for_nothing_lets_everybody_look(read_only: Door) -> None:
    assert ask(read_only, "/explore").passed
    assert ask(read_only, "/?token=anything").passed


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_a_page_that_only_reads_takes_nothing(
    read_only: Door, behind: Behind, method: str, kept: str
) -> None:
    assert ask(read_only, "/_stcore/upload_file/a/b", method, content_length="3").status == 403
    both = Door(behind, Access(NAMES, password=kept, read_only=True))
    assert ask(both, "/_stcore/upload_file/a/b", method, cookie=sign_in(both).cookie).status == 403
    assert not behind.came


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8501", "localhost.evil.example", "localhost@x", ""]
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_another_name_for_this_machine_is_refused(
    read_only: Door, behind: Behind, host: str, kind: str
) -> None:
    answer = ask(read_only, "/explore", kind=kind, host=host)
    assert answer.status == 403 if kind == "http" else answer.sent[0]["type"] == "websocket.close"
    assert not behind.came


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.:8501", "127.0.0.1:8501", "[::1]:8501", "192.0.2.9:80"]
)
def test_its_own_names_and_the_address_it_was_reached_at_are_answered(read_only: Door, host: str) -> None:
    assert ask(read_only, host=host, server="::ffff:192.0.2.9").passed
    assert ask(read_only, host="192.0.2.8", server="192.0.2.9").status == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:9000", "http://[", "file://"]
)
def test_a_websocket_of_another_site_is_refused(locked: Door, behind: Behind, origin: str) -> None:
    cookie = sign_in(locked).cookie
    answer = ask(locked, "/_stcore/stream", kind="websocket", cookie=cookie, origin=origin)
    assert [each["type"] for each in answer.sent] == ["websocket.close"]
    assert not behind.came


@pytest.mark.parametrize("host", ["docs.example.org", "127.0.0.1:8501"])  # a proxy may name itself
def test_behind_a_proxy_its_own_page_may_open_a_websocket(locked: Door, behind: Behind, host: str) -> None:
    cookie = sign_in(locked).cookie
    proxied = {"host": host, "origin": "https://docs.example.org"}
    ask(locked, "/_stcore/stream", kind="websocket", cookie=cookie, **proxied)
    # Streamlit compares the two, and asks a service outside where they differ.
    assert (b"origin", f"http://{host}".encode()) in behind.came[0]["headers"]
    assert len([name for name, _ in behind.came[0]["headers"] if name == b"origin"]) == 1


class TestUploads:
    """What all uploads together may take of the memory."""

    @pytest.fixture
    def held(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        held = [0]
        monkeypatch.setattr(module, "_held", lambda: held[0])
        return held

    @pytest.fixture
    def one(self, behind: Behind, kept: str) -> Door:
        return Door(behind, Access(NAMES, password=kept, largest_upload=2))

    def put(self, door: Door, **headers: str) -> int:
        cookie = f"nearsay_8501={door.signed_in.add(time.time())}"
        return ask(door, "/_stcore/upload_file/a/b", "PUT", cookie=cookie, **headers).status

    def test_is_bounded(self, one: Door, held: list[int], behind: Behind) -> None:
        held[0] = 9 * 2**20
        assert self.put(one, content_length=str(2**20)) == 200
        behind.came.clear()
        assert self.put(one, content_length=str(2**20 + 1)) == 413
        assert not behind.came

    def test_counts_those_that_are_on_their_way(self, one: Door, held: list[int]) -> None:
        one.arriving = 10 * 2**20
        assert self.put(one, content_length="1") == 413
        one.arriving = 0
        assert self.put(one, content_length="1") == 200
        assert one.arriving == 0

    def test_has_to_be_said_before(self, one: Door, held: list[int], behind: Behind) -> None:
        for size in ({}, {"content_length": "-1"}, {"content_length": "many"}):
            assert self.put(one, **size) == 411
        assert not behind.came


@pytest.mark.parametrize("address", ["/search", "/search/"])
def test_the_first_page_is_found_by_its_name_too(read_only: Door, behind: Behind, address: str) -> None:
    answer = ask(read_only, f"{address}?q=rain&collection=notes")
    assert (answer.status, answer.headers["location"]) == (307, "/?q=rain&collection=notes")
    assert ask(read_only, address).headers["location"] == "/"
    assert behind.came == []
