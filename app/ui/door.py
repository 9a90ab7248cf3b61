"""Access control in front of Streamlit: which requests and websockets reach it.

It covers everything that Streamlit serves (the page, its websocket, uploads, media, components), so that
nobody who is not signed in gets a session, stores a file in the server's memory or runs a script.
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

KEPT_SECONDS = 7 * 86_400  # how long a browser stays signed in
_MOST = 10_000  # browsers, or addresses, that are remembered; the oldest are dropped
_FREE = 5  # wrong passwords of an address before it has to wait
_LONGEST_WAIT = 60.0  # seconds
_FORGOTTEN = 900.0  # seconds after its last attempt until an address is forgotten


@dataclass
class SignedIn:
    """Tokens of signed-in browsers, in memory."""

    until: dict[str, float] = field(default_factory=dict)  # expiry by a token's SHA-256, earliest first
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float) -> str:
        """Return a token for another browser; now: seconds since the epoch."""
        token = secrets.token_urlsafe(32)
        with self.lock:
            kept = [(known, until) for known, until in self.until.items() if until > now]
            self.until = dict(kept[-(_MOST - 1) :])
            self.until[_digest(token)] = now + KEPT_SECONDS
        return token

    def knows(self, token: str, now: float) -> bool:
        """Return whether a token is valid: issued, not revoked and not expired."""
        with self.lock:
            return self.until.get(_digest(token), now) > now

    def forget(self, token: str) -> None:
        """Revoke a token."""
        with self.lock:
            self.until.pop(_digest(token), None)


@dataclass
class Tries:
    """Password attempts by address: after five wrong ones, each doubles the wait, up to a minute.

    Addresses are counted separately, so that nobody's attempts lock out others. Of IPv6 the first 64 bits
    count: each machine chooses the rest itself.
    """

    made: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)  # attempts, last time
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, address: str, now: float) -> float:
        """Return the seconds that the address has to wait; 0: it may try, which counts as a wrong attempt.

        Counting before the check limits parallel attempts, too. now: seconds of a monotonic clock
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
        """Forget the attempts of an address."""
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


_HEALTH = "/_stcore/health"  # reports only that the server runs
_SIGN_OUT = "/auth/logout"  # `st.logout` opens it
_FIRST_PAGE = "/search"  # Streamlit serves it only at "/"; here it would show "Page not found"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_LONGEST_FORM = 10_000  # bytes
_MEGABYTE = 2**20
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers omit the form's origin
    "X-Content-Type-Options": "nosniff",
}
_FORM = """<form method="post">
<label for="secret">$label</label>
<input id="secret" name="secret" type="password" aria-label="$label" autocomplete="$fill" required autofocus>
<button>Sign in</button>
</form>"""
_AT_ONCE = 2  # passwords hashed at the same time, 16 MB each


@dataclass
class Door:
    """ASGI middleware that admits signed-in browsers, or everybody if neither password nor token is set."""

    app: "ASGIApp"
    access: Access
    signed_in: SignedIn = field(default_factory=SignedIn)
    tries: Tries = field(default_factory=Tries)
    arriving: int = 0  # bytes of uploads in progress
    ticket: str | None = field(init=False)  # None once used
    at_once: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        """Set up the one-time ticket and the limit of concurrent password checks."""
        self.ticket = self.access.ticket
        self.at_once = CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass permitted requests to Streamlit, and answer all others."""
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
            self._set_own_origin(here)
            await self.app(scope, self._while_signed_in(token, receive, send), send)
            return
        request = Request(scope, receive)
        answer = foreign or await self._answer(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        if request.method in _SAFE_METHODS:
            if scope["path"].rstrip("/") == _FIRST_PAGE:
                query = scope["query_string"].decode("latin-1")
                answer = RedirectResponse(f"/?{query}" if query else "/", 307, _HEADERS)
            await (answer or self.app)(scope, receive, send)
            return
        await self._changing(request, send)

    def _foreign(self, here: HTTPConnection) -> Response | None:
        """Return the refusal of a foreign host name or of another site's request; None if it is neither.

        A site whose name is made to resolve to this machine (DNS rebinding) could otherwise read everything.
        """
        host = here.headers.get("host", "")
        if not self._is_ours(_host_name(f"//{host}"), here):
            return _plain(
                f"This server has no name {host!r}. Whoever started nearsay ui can add it: --host NAME",
                403,
            )
        origin = here.headers.get("origin")
        asks = here.scope["type"] == "websocket" or here.scope["method"] not in _SAFE_METHODS
        own = (host.lower(), *self.access.origins)
        if not asks or origin is None or origin.partition("://")[2].lower() in own:
            return None
        return _plain("Refused: the request came from a page of another site.", 403)

    def _is_ours(self, name: str, here: HTTPConnection) -> bool:
        """Return whether the name is allowed, or is the address at which this connection arrived."""
        if name in self.access.names:
            return True
        try:
            return _address(name) == _address((here.scope.get("server") or ("",))[0])
        except ValueError:
            return False

    @staticmethod
    def _set_own_origin(here: HTTPConnection) -> None:
        """Set this host as the origin, which `_foreign` has checked.

        If the two differ (a proxy may change the host), Streamlit asks an external service for this machine's
        address to compare them.
        """
        if "origin" in here.headers:
            kept = [(name, value) for name, value in here.scope["headers"] if name.lower() != b"origin"]
            own = f"http://{here.headers.get('host', '')}".encode("latin-1")
            here.scope["headers"] = [*kept, (b"origin", own)]

    def _token(self, here: HTTPConnection) -> str | None:
        """Return the browser's token, "" if everybody is admitted, or None if it is not signed in."""
        if self.access.password is None and self.access.token is None:
            return ""
        token = here.cookies.get(_cookie(here), "")
        return token if token and self.signed_in.knows(token, time.time()) else None

    def _while_signed_in(self, token: str, receive: "Receive", send: "Send") -> "Receive":
        """Pass on messages until the browser signs out; then have it reload the page."""
        if not token:
            return receive

        async def receive_if_known() -> "Message":
            message = await receive()
            if message["type"] != "websocket.receive" or self.signed_in.knows(token, time.time()):
                return message
            await send({"type": "websocket.send", "bytes": _reload_message()})
            await send({"type": "websocket.close", "code": 1008})
            return {"type": "websocket.disconnect", "code": 1008}

        return receive_if_known

    async def _answer(self, request: Request) -> Response | None:
        """Return the response of a request that is answered here; None to pass it on."""
        token = self._token(request)
        if token == "":
            return None
        if request.scope["path"] == _SIGN_OUT and request.headers.get("sec-fetch-site") != "cross-site":
            if token is not None:
                self.signed_in.forget(token)
            away = RedirectResponse("/", 303, _HEADERS)
            away.delete_cookie(_cookie(request), httponly=True, samesite="lax")
            return away
        if request.method in _SAFE_METHODS:
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
        """Check a password or token that was typed."""
        try:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_FORM:
                    return _plain("The form is too long.", 413)
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
        """Return whether it is the token or the unused ticket; this uses up the ticket."""
        if _same(shown, self.access.token):
            return True
        if not _same(shown, self.ticket):
            return False
        self.ticket = None
        return True

    def _let_in(self, request: Request, *, known: bool = False) -> Response:
        """Redirect to the same address without the token, and set the cookie; known: it is set already."""
        query = urlencode(
            [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        )
        place = "/" + quote(request.scope["path"].lstrip("/\\"))  # two slashes would begin a host name
        answer = RedirectResponse(f"{place}?{query}" if query else place, 303, _HEADERS)
        if not known:
            answer.set_cookie(
                _cookie(request),
                self.signed_in.add(time.time()),
                max_age=KEPT_SECONDS,
                httponly=True,
                samesite="lax",  # links from other sites work; requests of their scripts do not carry it
                secure=request.url.scheme == "https",
            )
        return answer

    def _ask(self, request: Request, *, wrong: bool = False, wait: float = 0.0) -> Response:
        """Return the sign-in page, or a line if the request is not for a page."""
        with_password = self.access.password is not None
        if "text/html" not in request.headers.get("accept", ""):
            # JSON, since Streamlit's page shows it after losing its connection, but not plain text.
            how = "Reload the page" if with_password else "Open the address that nearsay ui printed"
            return JSONResponse(f"You are not signed in. {how}.", 401, _HEADERS)
        notes = []
        if not with_password:
            notes.append(
                "<p>This page is for the person who started it. Open the address that "
                "<code>nearsay ui</code> printed, which ends with <code>?token=…</code>, or type the token "
                "here.</p>"
            )
        if wait > 0:
            notes.append(
                '<p class="wrong" role="alert">Too many wrong passwords came from your address. Try again in '
                f"{counted(int(wait) + 1, 'second')}.</p>"
            )
        elif wrong and with_password:
            notes.append(
                '<p class="wrong" role="alert">Wrong password. Ask whoever started this server for it.</p>'
            )
        elif wrong:
            notes.append(
                '<p class="wrong" role="alert">Wrong token. The server has a new one after every start.</p>'
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
            page.substitute(notes="\n".join(notes), form=form), 429 if wait > 0 else 401, headers
        )

    async def _changing(self, request: Request, send: "Send") -> None:
        """Pass on a request with a body, unless the server is read-only or uploads exceed their limit."""
        scope, receive = request.scope, request.receive
        if self.access.read_only:
            await _plain("This server is read-only and accepts no files.", 403)(scope, receive, send)
            return
        size = request.headers.get("content-length", "0" if request.method == "DELETE" else "")
        if not size.isdecimal():
            await _plain("A Content-Length header is required.", 411)(scope, receive, send)
            return
        bound = UPLOADS_HELD * self.access.largest_upload * _MEGABYTE
        if _held() + self.arriving + int(size) > bound:
            text = (
                f"Uploads may take {bound // _MEGABYTE:,} MB of this server's memory in total, which this "
                "one exceeds. Wait until others are added, or start nearsay ui with a larger --max-upload"
            )
            await _read_and_drop(receive, self.access.largest_upload * _MEGABYTE)
            await _plain(text, 413)(scope, receive, send)
            return
        self.arriving += int(size)
        try:
            await self.app(scope, receive, send)
        finally:
            self.arriving -= int(size)


async def _read_and_drop(receive: "Receive", most: int) -> None:
    """Read the rest of the request: a browser shows no response before it has sent everything."""
    while most > 0:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        most -= len(message.get("body", b""))


def _held() -> int:
    """Return the bytes of uploads that Streamlit holds for all sessions."""
    from streamlit.runtime import get_instance
    from streamlit.runtime.stats import CacheStat

    found = get_instance().uploaded_file_mgr.get_stats()
    return sum(stat.byte_length for stats in found.values() for stat in stats if isinstance(stat, CacheStat))


def _reload_message() -> bytes:
    """Return the message that makes Streamlit's page open an address; the empty one reloads the page."""
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    message = ForwardMsg()
    message.auth_redirect.url = ""
    return bytes(message.SerializeToString())


def _same(shown: str, kept: str | None) -> bool:
    return kept is not None and hmac.compare_digest(shown.encode("utf-8", "replace"), kept.encode())


def _cookie(here: HTTPConnection) -> str:
    """Return the cookie's name, which has the port in it: browsers send a host's cookies to all its ports."""
    return f"nearsay_{(here.scope.get('server') or ('', ''))[1]}"


def _host_name(url: str) -> str:
    """Return the host name of an address in lower case; "" if it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # ValueError for a port that is none
        return "" if parts.username is not None else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text.partition("%")[0])
    return (found.ipv4_mapped if found.version == 6 else None) or found


def _plain(text: str, status: int) -> Response:
    return PlainTextResponse(text, status, _HEADERS)
