"""The context of a page: settings, library and collection, and what the visitor may do."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.app.ui.settings import Settings
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library


@dataclass(frozen=True, slots=True)
class Visit:
    """The library, and the collection chosen in the sidebar."""

    settings: Settings
    library: Library
    name: str | None  # of the collection; None if there is none

    @property
    def collection(self) -> Collection:
        """The chosen collection. Raises BadInputError if there is none."""
        if self.name is None:
            make = self.remedy("Create one on the page Collections")
            raise BadInputError(f"there is no collection yet.{make}")
        return self.library.shared(self.name)  # keeps its files open between runs

    @property
    def may_write(self) -> bool:
        """Whether this page may change anything; otherwise buttons that would are not shown."""
        return not self.settings.read_only

    @property
    def may_name_files(self) -> bool:
        """Whether paths of the server may be entered."""
        return self.may_write and self.settings.server_files

    def check_naming_files(self) -> None:
        """Raise BadInputError if paths of the server may not be entered; called before every access."""
        if not self.may_name_files:
            raise BadInputError(
                "paths of the server cannot be entered on this page. Whoever started it can allow them: "
                "nearsay ui --server-files"
            )

    def server_path(self, typed: str) -> Path:
        """Return a path on the server. Raises BadInputError if it does not exist or may not be entered."""
        self.check_naming_files()
        path = Path(typed.strip()).expanduser()
        if not path.is_absolute():
            raise BadInputError(f"'{path}' is not an absolute path. Begin it with '/' or '~'")
        if not path.exists():
            raise BadInputError(f"{path} does not exist on the machine that serves this page. Check the path")
        return path

    def remedy(self, text: str) -> str:
        """Return the remedy with a leading space; "" if nothing may be changed."""
        return f" {text}" if self.may_write else ""

    def check_writing(self) -> None:
        """Raise BadInputError if nothing may be changed; called before every change, whatever was shown."""
        if not self.may_write:
            raise BadInputError(
                "this page is read-only. Whoever started it can allow changes: nearsay ui without --read-only"
            )
