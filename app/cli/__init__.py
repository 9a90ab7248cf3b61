"""The `nearsay` command: parses, calls the library, prints. Heavy imports live inside the commands."""

from nearsay.app.cli.main import main

__all__ = ["main"]
