"""The page's door: what may pass to Streamlit, of requests and of websockets.

It stands before everything that Streamlit answers (the page, its websocket, uploads, media, components), so
that nobody who is not let in has a session, a file in the server's memory, or a script that runs for them.
"""

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from nearsay.app.ui.settings import UPLOADS_HELD, Access, is_right
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEPT_SECONDS = 7 * 86_400  # for which a browser is remembered
_MOST = 10_000  # browsers, or addresses, that are remembered; of more the oldest is forgotten
_FREE = 5  # wrong passwords of an address before it has to wait
_LONGEST_WAIT = 60.0  # seconds
_FORGOTTEN = 900.0  # seconds after its last try in which an address is known


@dataclass
class SignedIn:
    """What was given to browsers that were let in; it lives as long as the page's process."""

    until: dict[str, float] = field(default_factory=dict)  # by a token's SHA-256, the earliest first
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float) -> str:
        """A token for another browser; now: seconds since the epoch."""
        token = secrets.token_urlsafe(32)
        with self.lock:
            kept = [(known, until) for known, until in self.until.items() if until > now]
            self.until = dict(kept[-(_MOST - 1) :])
            self.until[_digest(token)] = now + KEPT_SECONDS
        return token

    def knows(self, token: str, now: float) -> bool:
        """Whether it was given, and neither taken back nor too long ago."""
        with self.lock:
            return self.until.get(_digest(token), now) > now

    def forget(self, token: str) -> None:
        """Take it back."""
        with self.lock:
            self.until.pop(_digest(token), None)


@dataclass
class Tries:
    """The passwords that each address tried: after five wrong ones every other doubles its wait, to a minute.

    Addresses are told apart, so that nobody's tries keep anybody else out. Of IPv6 the first 64 bits count:
    the rest is each machine's to choose.
    """

    made: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)  # how many, and the last
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, address: str, now: float) -> float:
        """Seconds that the address has to wait; 0: it may try, which counts as wrong from now on.

        So that many tries at once are no way round. now: seconds of any clock that only goes forward
        """
        network = _network(address)
        with self.lock:
            count, last = self.made.get(network, (0, now))
            if now - last > _FORGOTTEN:
                count = 0
            wait = min(_LONGEST_WAIT, 2.0 ** (count - _FREE)) - (now - last) if count >= _FREE else 0.0
            if wait > 0:
                return wait
            self.made[network] = (count + 1, now)
            self.made.move_to_end(network)
            while len(self.made) > _MOST:
                self.made.popitem(last=False)
            return 0.0

    def was_right(self, address: str) -> None:
        """Forget what the address tried."""
        with self.lock:
            self.made.pop(_network(address), None)


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found.packed[:8] + bytes(8), 64)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


_HEALTH = "/_stcore/health"  # tells that the server runs, and nothing else
_SIGN_OUT = "/auth/logout"  # where `st.logout` sends a browser
_FIRST_PAGE = "/search"  # which Streamlit has at "/" alone: for its own name it says "Page not found"
_LOOKING = ("GET", "HEAD", "OPTIONS")
_LONGEST_FORM = 10_000  # bytes
_MEGABYTE = 2**20
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would send the form without its origin
    "X-Content-Type-Options": "nosniff",
}
_FORM = """<form method="post">
<label for="secret">$label</label>
<input id="secret" name="secret" type="password" aria-label="$label" autocomplete="$fill" required autofocus>
<button>Sign in</button>
</form>"""
_AT_ONCE = 2  # passwords that are stretched at the same time, 16 MB each


@dataclass
class Door:
    """ASGI middleware that lets in who is signed in, or everybody where neither password nor token is set."""

    app: "ASGIApp"
    access: Access
    signed_in: SignedIn = field(default_factory=SignedIn)
    tries: Tries = field(default_factory=Tries)
    arriving: int = 0  # bytes of uploads that are on their way
    ticket: str | None = field(init=False)  # None once it was used
    at_once: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        """The ticket is good once."""
        self.ticket = self.access.ticket
        self.at_once = CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass on what may pass; answer everything else here."""
        if scope["type"] not in ("http", "websocket") or scope["path"] == _HEALTH:
            await self.app(scope, receive, send)
            return
        here = HTTPConnection(scope)
        foreign = self._foreign(here)
        if scope["type"] == "websocket":
            token = self._token(here)
            if foreign or token is None:
                await send({"type": "websocket.close", "code": 1008})
                return
            self._take_home(here)
            await self.app(scope, self._while_signed_in(token, receive, send), send)
            return
        request = Request(scope, receive)
        answer = foreign or await self._answer(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        if request.method in _LOOKING:
            if scope["path"].rstrip("/") == _FIRST_PAGE:
                query = scope["query_string"].decode("latin-1")
                answer = RedirectResponse(f"/?{query}" if query else "/", 307, _HEADERS)
            await (answer or self.app)(scope, receive, send)
            return
        await self._changing(request, send)

    def _foreign(self, here: HTTPConnection) -> Response | None:
        """The refusal of another name for this machine, or of another site's script; None for neither.

        A site whose name suddenly means this machine (DNS rebinding) could otherwise read everything here.
        """
        host = here.headers.get("host", "")
        if not self._is_ours(_host_name(f"//{host}"), here):
            return _plain(
                f"There is no page named {host!r} here. Who started nearsay ui can allow it: --host NAME",
                403,
            )
        origin = here.headers.get("origin")
        asks = here.scope["type"] == "websocket" or here.scope["method"] not in _LOOKING
        own = (host.lower(), *self.access.origins)
        if not asks or origin is None or origin.partition("://")[2].lower() in own:
            return None
        return _plain("This was asked by a page of another site, and is refused.", 403)

    def _is_ours(self, name: str, here: HTTPConnection) -> bool:
        """Whether it is a name that was allowed, or the address at which this connection arrived."""
        if name in self.access.names:
            return True
        try:
            return _address(name) == _address((here.scope.get("server") or ("",))[0])
        except ValueError:
            return False

    @staticmethod
    def _take_home(here: HTTPConnection) -> None:
        """Name this host as the origin: it was looked at here, by rules that need nobody else.

        For one that is not the same as the host (a proxy may change that) Streamlit asks a service outside
        for this machine's address, to compare it.
        """
        if "origin" in here.headers:
            kept = [(name, value) for name, value in here.scope["headers"] if name.lower() != b"origin"]
            own = f"http://{here.headers.get('host', '')}".encode("latin-1")
            here.scope["headers"] = [*kept, (b"origin", own)]

    def _token(self, here: HTTPConnection) -> str | None:
        """What the browser was given when it was let in, "" where everybody is; None: it is not let in."""
        if self.access.password is None and self.access.token is None:
            return ""
        token = here.cookies.get(_cookie(here), "")
        return token if token and self.signed_in.knows(token, time.time()) else None

    def _while_signed_in(self, token: str, receive: "Receive", send: "Send") -> "Receive":
        """The same messages, until somebody signs this browser out: then the page is loaded anew instead."""
        if not token:
            return receive

        async def receive_if_known() -> "Message":
            message = await receive()
            if message["type"] != "websocket.receive" or self.signed_in.knows(token, time.time()):
                return message
            await send({"type": "websocket.send", "bytes": _load_anew()})
            await send({"type": "websocket.close", "code": 1008})
            return {"type": "websocket.disconnect", "code": 1008}

        return receive_if_known

    async def _answer(self, request: Request) -> Response | None:
        """What is answered here; None for what may pass."""
        token = self._token(request)
        if token == "":
            return None
        if request.scope["path"] == _SIGN_OUT and request.headers.get("sec-fetch-site") != "cross-site":
            if token is not None:
                self.signed_in.forget(token)
            away = RedirectResponse("/", 303, _HEADERS)
            away.delete_cookie(_cookie(request), httponly=True, samesite="lax")
            return away
        if request.method in _LOOKING:
            shown = request.query_params.get("token")
            if shown is not None and self.access.token is not None:
                if token is None and not self._is_token(shown):
                    return self._ask(request, wrong=True)
                return self._let_in(request, known=token is not None)
            return None if token is not None else self._ask(request)
        if token is not None:
            return None
        if request.method != "POST" or request.scope["path"].startswith("/_stcore/"):
            return self._ask(request)
        return await self._try(request)

    async def _try(self, request: Request) -> Response:
        """Look at a password, or a token, that was typed."""
        try:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_FORM:
                    return _plain("That is longer than any password here.", 413)
        except ClientDisconnect:
            return _plain("", 400)
        typed = parse_qs(body.decode("utf-8", "replace")).get("secret", [""])[0]
        kept = self.access.password
        if kept is None:
            return self._let_in(request) if self._is_token(typed.strip()) else self._ask(request, wrong=True)
        client = request.client.host if request.client else ""
        wait = self.tries.begin(client, time.monotonic())
        if wait > 0:
            return self._ask(request, wait=wait)
        if not await to_thread.run_sync(is_right, typed, kept, limiter=self.at_once):
            return self._ask(request, wrong=True)
        self.tries.was_right(client)
        return self._let_in(request)

    def _is_token(self, shown: str) -> bool:
        """Whether it is the token, or the ticket, which is used up by that."""
        if _same(shown, self.access.token):
            return True
        if not _same(shown, self.ticket):
            return False
        self.ticket = None
        return True

    def _let_in(self, request: Request, *, known: bool = False) -> Response:
        """To the same address, without a token in it; known: the browser has been let in before."""
        query = urlencode(
            [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        )
        place = "/" + quote(
            request.scope["path"].lstrip("/\\")
        )  # two slashes would begin another site's name
        answer = RedirectResponse(f"{place}?{query}" if query else place, 303, _HEADERS)
        if not known:
            answer.set_cookie(
                _cookie(request),
                self.signed_in.add(time.time()),
                max_age=KEPT_SECONDS,
                httponly=True,
                samesite="lax",  # a link from elsewhere works; another site's script sends it nowhere
                secure=request.url.scheme == "https",
            )
        return answer

    def _ask(self, request: Request, *, wrong: bool = False, wait: float = 0.0) -> Response:
        """The page that asks for the password or the token; a line for what is no page."""
        with_password = self.access.password is not None
        if "text/html" not in request.headers.get("accept", ""):
            # As JSON: Streamlit's page shows it where it loses its connection, but no plain text.
            how = "Load the page again" if with_password else "Open the address that nearsay ui printed"
            return JSONResponse(f"You are not signed in. {how}.", 401, _HEADERS)
        said = []
        if not with_password:
            said.append(
                "<p>This page is for the person who started it. Open the address that "
                "<code>nearsay ui</code> printed, which ends with <code>?token=…</code>, or type the token "
                "here.</p>"
            )
        if wait > 0:
            said.append(
                '<p class="wrong" role="alert">Too many wrong passwords came from your address. Try again in '
                f"{counted(int(wait) + 1, 'second')}.</p>"
            )
        elif wrong and with_password:
            said.append(
                '<p class="wrong" role="alert">That is not the password. Ask whoever started this server '
                "for it.</p>"
            )
        elif wrong:
            said.append(
                '<p class="wrong" role="alert">That is not the token of this server, which is another after '
                "every start.</p>"
            )
        form = Template(_FORM).substitute(
            label="Password" if with_password else "Token",
            fill="current-password" if with_password else "off",
        )
        page = Template(files("nearsay.app.ui").joinpath("sign_in.html").read_text("utf-8"))
        headers = _HEADERS | {"WWW-Authenticate": "FormBased"}
        if wait > 0:
            headers["Retry-After"] = str(int(wait) + 1)
        return HTMLResponse(
            page.substitute(said="\n".join(said), form=form), 429 if wait > 0 else 401, headers
        )

    async def _changing(self, request: Request, send: "Send") -> None:
        """Pass on what brings something: never where nothing may be changed, and no more than fits."""
        scope, receive = request.scope, request.receive
        if self.access.read_only:
            await _plain("This page only reads: it takes no files.", 403)(scope, receive, send)
            return
        size = request.headers.get("content-length", "0" if request.method == "DELETE" else "")
        if not size.isdecimal():
            await _plain("Say how long it is (Content-Length).", 411)(scope, receive, send)
            return
        bound = UPLOADS_HELD * self.access.largest_upload * _MEGABYTE
        if _held() + self.arriving + int(size) > bound:
            said = (
                f"All uploads together may take {bound // _MEGABYTE:,} MB of this server's memory, and this "
                "one is too much. Wait until others are added, or start nearsay ui with a larger --max-upload"
            )
            await _read_and_drop(receive, self.access.largest_upload * _MEGABYTE)
            await _plain(said, 413)(scope, receive, send)
            return
        self.arriving += int(size)
        try:
            await self.app(scope, receive, send)
        finally:
            self.arriving -= int(size)


async def _read_and_drop(receive: "Receive", most: int) -> None:
    """What a browser still sends: it shows no answer that comes before it has sent everything."""
    while most > 0:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        most -= len(message.get("body", b""))


def _held() -> int:
    """Bytes of the uploads that Streamlit holds for all sessions."""
    from streamlit.runtime import get_instance
    from streamlit.runtime.stats import CacheStat

    found = get_instance().uploaded_file_mgr.get_stats()
    return sum(stat.byte_length for stats in found.values() for stat in stats if isinstance(stat, CacheStat))


def _load_anew() -> bytes:
    """The message by which Streamlit's page goes to an address; the empty one is where it is."""
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    message = ForwardMsg()
    message.auth_redirect.url = ""
    return bytes(message.SerializeToString())


def _same(shown: str, kept: str | None) -> bool:
    return kept is not None and hmac.compare_digest(shown.encode("utf-8", "replace"), kept.encode())


def _cookie(here: HTTPConnection) -> str:
    """The cookie's name, one for each port: browsers send what a host set to all its ports."""
    return f"nearsay_{(here.scope.get('server') or ('', ''))[1]}"


def _host_name(url: str) -> str:
    """The name in an address, in small letters; "" for what is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # ValueError for a port that is none
        return "" if parts.username is not None else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text.partition("%")[0])
    return (found.ipv4_mapped if found.version == 6 else None) or found


def _plain(said: str, status: int) -> Response:
    return PlainTextResponse(said, status, _HEADERS)
