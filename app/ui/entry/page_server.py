"""The process that serves the page: Streamlit's server, with the door before it.

It lies in this folder because Streamlit puts the folder of what it starts first on the path.
"""

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.cli_util import open_browser

from nearsay.app.ui.door import Door
from nearsay.app.ui.settings import Access


def main() -> None:
    """Serve until a signal ends it; what `nearsay ui` hands over comes through the pipe that it names."""
    with os.fdopen(int(sys.argv.pop()), encoding="utf-8") as pipe:
        handed = json.load(pipe)

    @contextlib.asynccontextmanager
    async def begun(_: st.App) -> AsyncIterator[None]:
        threading.Thread(target=_prepare, name="first page", daemon=True).start()
        if handed["open"] is not None:
            open_browser(handed["open"])
        yield

    # Its own greetings, which a level would not keep away: uvicorn sets that anew.
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno >= logging.WARNING)
    door = Middleware(Door, Access(**handed["access"]))
    app = st.App(Path(__file__).with_name("streamlit_script.py"), middleware=[door], lifespan=begun)
    with contextlib.suppress(KeyboardInterrupt):
        app.run(config=handed["options"])


def _prepare() -> None:
    """Import the pages and open the library while the browser still fetches what Streamlit needs there."""
    from nearsay.app.ui.application import prepare

    prepare()


if __name__ == "__main__":
    main()
