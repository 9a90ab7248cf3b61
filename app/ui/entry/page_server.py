"""The server process of the page: Streamlit with access control in front of it.

It is in this folder because Streamlit puts the folder of the script first on sys.path.
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
    """Serve until a signal stops it; `nearsay ui` passes its settings through a pipe, the last argument."""
    with os.fdopen(int(sys.argv.pop()), encoding="utf-8") as pipe:
        handed = json.load(pipe)

    @contextlib.asynccontextmanager
    async def started(_: st.App) -> AsyncIterator[None]:
        threading.Thread(target=_prepare, name="first page", daemon=True).start()
        if handed["open"] is not None:
            open_browser(handed["open"])
        yield

    # Drops uvicorn's start messages; a level would not, since uvicorn resets it.
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno >= logging.WARNING)
    door = Middleware(Door, Access(**handed["access"]))
    app = st.App(Path(__file__).with_name("streamlit_script.py"), middleware=[door], lifespan=started)
    with contextlib.suppress(KeyboardInterrupt):
        app.run(config=handed["options"])


def _prepare() -> None:
    from nearsay.app.ui.application import prepare

    prepare()


if __name__ == "__main__":
    main()
