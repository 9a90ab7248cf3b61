"""The page as `nearsay ui` serves it, asked over HTTP and its websocket; without a browser."""

import http.cookiejar
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from nearsay.app.ui.settings import Settings

PASSWORD = "a quiet harbour"  # noqa: S105
Serve = Callable[..., Any]


@dataclass
class Caller:
    """Somebody who asks the server without a browser, and keeps its cookies."""

    server: Any
    jar: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    def asks(
        self, path: str, method: str = "GET", data: bytes | None = None, **headers: str
    ) -> tuple[int, str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.server.address + path, data, given, method=method)  # noqa: S310
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")

    def signs_in(self) -> None:
        body = urllib.parse.urlencode({"secret": PASSWORD}).encode()
        assert self.asks("/", "POST", body)[0] == 200

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self.jar}

    def opens(self, **headers: str) -> ClientConnection:
        """A websocket to the page."""
        self.asks("/_stcore/health")
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return connect(
            f"{self.server.address.replace('http', 'ws', 1)}/_stcore/stream",
            additional_headers={"Cookie": kept} | headers,
            subprotocols=["streamlit", self.cookies["_streamlit_xsrf"]],  # type: ignore[list-item]
            max_size=None,
            open_timeout=60,
        )

    def session(self, socket_: ClientConnection) -> str:
        """The number of the session, once the page has begun to run."""
        from streamlit.proto.BackMsg_pb2 import BackMsg
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        look = BackMsg()
        look.rerun_script.query_string = ""
        socket_.send(look.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(socket_.recv(60))
            if message.WhichOneof("type") == "new_session":
                return str(message.new_session.initialize.session_id)

    def uploads(self, session: str, name: str, size: int) -> int:
        head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
        body = head + b"x" * size + b"\r\n--b--\r\n"
        xsrf = {"X_Xsrftoken": self.cookies["_streamlit_xsrf"]}
        kind = {"Content_Type": "multipart/form-data; boundary=b"}
        return self.asks(f"/_stcore/upload_file/{session}/{name}", "PUT", body, **xsrf, **kind)[0]


@pytest.fixture
def with_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARSAY_UI_PASSWORD", PASSWORD)


@pytest.mark.long
def test_the_printed_address_opens_the_page_and_no_other_does(serve: Serve) -> None:
    caller = Caller(serve())
    assert caller.asks("/")[0] == 401
    assert caller.asks("/?token=another")[0] == 401
    with pytest.raises(InvalidStatus):
        caller.opens()
    status, page = caller.asks(f"/?token={caller.server.token}")
    assert status == 200
    assert "<title>Streamlit</title>" in page
    with caller.opens() as socket_:
        assert caller.session(socket_)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows what a process has open")
def test_the_library_is_open_before_anybody_asks_for_a_page(serve: Serve, settings: Settings) -> None:
    server, catalogue = serve(), str(Path(settings.library, "catalogue.sqlite").resolve())
    until = time.monotonic() + 60
    while catalogue not in (open_files := server.files()):
        assert time.monotonic() < until, open_files


@pytest.mark.long
def test_nothing_is_taken_from_who_did_not_sign_in(serve: Serve, with_password: None) -> None:
    stranger, guest = (Caller(server) for server in [serve()] * 2)
    guest.signs_in()
    with pytest.raises(InvalidStatus):
        stranger.opens()
    with guest.opens() as socket_:
        session = guest.session(socket_)
        assert stranger.uploads(session, "a", 100) == 401
        assert guest.uploads(session, "a", 100) == 204


@pytest.mark.long
def test_a_page_that_only_reads_takes_no_files(serve: Serve) -> None:
    caller = Caller(serve(read_only=True))
    caller.asks(f"/?token={caller.server.token}")
    with caller.opens() as socket_:
        assert caller.uploads(caller.session(socket_), "a", 100) == 403


@pytest.mark.long
def test_uploads_together_take_no_more_of_the_memory_than_is_allowed(serve: Serve) -> None:
    caller = Caller(serve("--max-upload", "1"))
    caller.asks(f"/?token={caller.server.token}")
    with caller.opens() as socket_:
        session = caller.session(socket_)
        size = 2**20 - 1_000  # and a little around it
        assert [caller.uploads(session, str(each), size) for each in range(6)] == [204] * 5 + [413]
        xsrf = {"X_Xsrftoken": caller.cookies["_streamlit_xsrf"]}
        assert caller.asks(f"/_stcore/upload_file/{session}/0", "DELETE", **xsrf)[0] == 204
        assert caller.uploads(session, "another", size) == 204


@pytest.mark.long
def test_no_process_shows_the_password_or_the_token(serve: Serve, with_password: None) -> None:
    server = serve()
    for name in ("environ", "cmdline"):
        shown = Path(f"/proc/{server.pid}/{name}")
        if not shown.exists():
            pytest.skip("only Linux shows these")
        assert PASSWORD.encode() not in shown.read_bytes()
        assert b"PASSWORD" not in shown.read_bytes()


@pytest.mark.long
def test_behind_a_proxy_no_file_of_the_machine_can_be_named(
    settings: Settings, page: Any, with_password: None, serve: Serve
) -> None:
    caller = Caller(serve("--host", "docs.example.org"))
    assert caller.asks("/", Host="docs.example.org")[0] == 401
    assert caller.asks("/", Host="evil.example")[0] == 403
    app = page(
        "collections", see="Add", settings=Settings(settings.library, device="cpu", server_files=False)
    )
    assert "A folder" not in app.segmented_control(key="add_from").options


_RECORD = """
import os, socket

_looked_up, _connect = socket.getaddrinfo, socket.socket.connect


def _record(what):
    with open(os.environ["RECORDED"], "a") as file:
        file.write(f"{what}\\n")


def _getaddrinfo(host, *args, **kwargs):
    _record(f"name {host}")
    return _looked_up(host, *args, **kwargs)


def _connected(self, address):
    _record(f"address {address}")
    return _connect(self, address)


socket.getaddrinfo, socket.socket.connect = _getaddrinfo, _connected
for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getfqdn"):
    setattr(socket, name, lambda *args, name=name: _record(f"{name} {args}"))
_record("begun")
"""


@pytest.mark.long
def test_no_name_is_looked_up_at_the_start_at_a_look_or_for_another_sites_websocket(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_password: None
) -> None:
    (tmp_path / "recording").mkdir()
    (tmp_path / "recording" / "sitecustomize.py").write_text(_RECORD)
    recorded = tmp_path / "recorded.txt"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "recording"))
    monkeypatch.setenv("RECORDED", str(recorded))
    caller = Caller(serve("--host", "other.example.org", "--host", "docs.example.org"))
    caller.signs_in()
    with caller.opens() as socket_:
        assert caller.session(socket_)
    # allowed, though it is not the name of the host
    with caller.opens(Origin="http://docs.example.org") as socket_:
        assert caller.session(socket_)
    for origin in ("https://evil.example", "null"):
        with pytest.raises(InvalidStatus):
            caller.opens(Origin=origin)
    seen = recorded.read_text().splitlines()
    assert seen.count("begun") == 2  # nearsay ui, and the server that it becomes
    assert {line for line in seen if line != "begun"} <= {"name localhost"}
