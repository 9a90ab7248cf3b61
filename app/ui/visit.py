"""One person's look at one page: what there is to work with, and what may be done."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.app.ui.settings import Settings
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library


@dataclass(frozen=True, slots=True)
class Visit:
    """The library, and the collection that the sidebar names."""

    settings: Settings
    library: Library
    name: str | None  # of the collection; None while there is none

    @property
    def collection(self) -> Collection:
        """The chosen collection; BadInputError while there is none."""
        if self.name is None:
            make = self.remedy("Make one on the page Collections")
            raise BadInputError(f"there is no collection yet.{make}")
        return self.library.shared(self.name)  # its files stay open from look to look

    @property
    def may_write(self) -> bool:
        """Whether this page may change anything; a button for what it may not is not shown."""
        return not self.settings.read_only

    @property
    def may_name_files(self) -> bool:
        """Whether files of the serving machine may be named, to change things with them."""
        return self.may_write and self.settings.server_files

    def check_naming_files(self) -> None:
        """BadInputError where no file of the serving machine may be named: asked before every look at one."""
        if not self.may_name_files:
            raise BadInputError(
                "files and folders of the server cannot be named on this page. Who started it can allow it: "
                "nearsay ui --server-files"
            )

    def server_path(self, typed: str) -> Path:
        """A file or folder of the serving machine; BadInputError for what is none, or may not be named."""
        self.check_naming_files()
        path = Path(typed.strip()).expanduser()
        if not path.is_absolute():
            raise BadInputError(f"'{path}' is no whole path. Begin it with '/' or '~'")
        if not path.exists():
            raise BadInputError(f"there is no {path} on the machine that serves this page. Check the name")
        return path

    def remedy(self, said: str) -> str:
        """What changes something, to stand behind what is wrong; nothing where the page only reads."""
        return f" {said}" if self.may_write else ""

    def check_writing(self) -> None:
        """BadInputError where nothing may be changed: asked before every change, whatever was shown."""
        if not self.may_write:
            raise BadInputError(
                "this page only reads. Who started it can allow changes: nearsay ui without --read-only"
            )
