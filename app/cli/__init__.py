"""The `nearsay` command: parses, calls the library, prints. Slow imports are inside the commands."""

from nearsay.app.cli.main import main

__all__ = ["main"]
