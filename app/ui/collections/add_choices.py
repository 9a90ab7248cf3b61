"""What was chosen in the form that adds documents, and the command that it comes to."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.data.chunking import Chunking, ChunkingMethod
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions, Split
from nearsay.indexer.duplicates.gate import AskedGate

__all__ = ["AddChoices", "chunking_text"]


@dataclass(frozen=True, slots=True)
class AddChoices:
    """Everything behind `nearsay documents add`; what is None is left to the command."""

    collection: str
    sources: tuple[str, ...]  # whole paths
    relative_to: str | None = None  # the folder that holds them: their documents are called by their place
    text: str | None = None  # the field with the text
    id: str | None = None
    title: str | None = None
    metadata: tuple[str, ...] | None = None  # fields to keep beside; None: all others
    split: Split = Split.AUTO  # what of a .txt file is one document
    whole_page: bool = False  # HTML with what stands around its main part
    encoding: str | None = None  # of the files; None: UTF-8, or what their bytes say
    chunking: str | None = None
    encoder: str | None = None
    dtype: str | None = None  # how a new collection's vectors are stored
    near_duplicates: str | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        """BadInputError for fields, chunking or a gate that cannot be."""
        for name in self.metadata or ():
            if "," in name:
                raise BadInputError(
                    f"the field {name!r} has a comma in its name and cannot be chosen alone. Keep all fields"
                )
        self.options()
        AskedGate(self.near_duplicates, self.threshold)
        if self.chunking is not None:
            Chunking.parse(self.chunking)

    @property
    def run_title(self) -> str:
        """What is done, for people."""
        what = Path(self.sources[0]).name if len(self.sources) == 1 else f"{len(self.sources):,} files"
        return f"Add {what} to {self.collection}"

    def options(self) -> ReadOptions:
        """The same for the readers."""
        return ReadOptions(
            text=self.text,
            id=self.id,
            title=self.title,
            metadata=self.metadata,
            split=self.split,
            whole_page=self.whole_page,
            encoding=self.encoding,
            relative_to=self.relative_to,
        )

    def arguments(self) -> list[str]:
        """What stands behind `nearsay`; names that begin with '-' stand behind '--'."""
        said: list[tuple[str, str | None]] = [
            ("--text", self.text),
            ("--id", self.id),
            ("--title", self.title),
            ("--metadata", None if self.metadata is None else ",".join(self.metadata)),
            ("--split", None if self.split is Split.AUTO else str(self.split)),
            ("--encoding", self.encoding),
            ("--chunking", self.chunking),
            ("--encoder", self.encoder),
            ("--dtype", self.dtype),
            ("--near-duplicates", self.near_duplicates),
            ("--near-duplicate-threshold", None if self.threshold is None else f"{self.threshold:g}"),
            ("--relative-to", self.relative_to),
        ]
        options = [part for name, value in said if value is not None for part in (name, value)]
        if self.whole_page:
            options.append("--whole-page")
        return ["documents", "add", *options, "--", self.collection, *self.sources]


def chunking_text(method: str, tokens: int = 0, overlap: int = 32, language: str = "en") -> str | None:
    """The chunking as the command takes it; None for the usual one. BadInputError if it cannot be."""
    if method != ChunkingMethod.TOKENS:
        tokens, overlap = Chunking().tokens, Chunking().overlap
    chosen = Chunking(ChunkingMethod(method), tokens, overlap, language.strip() or "en")
    return None if chosen == Chunking() else str(chosen)
