"""New documents and their passages laid out as the columns that the catalogue will hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nearsay.indexer.catalogue.json_text import json_text
from nearsay.indexer.catalogue.passage import PreparedDocument, pieces_of

__all__ = ["NewDocuments"]


@dataclass(slots=True)
class NewDocuments:
    """All that can be said of new documents before they have numbers: made while others are written."""

    ids: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)  # JSON
    content_hashes: list[str] = field(default_factory=list)
    row_hashes: list[str] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    named_by_content: list[bool] = field(default_factory=list)

    # A passage each:
    documents: list[int] = field(default_factory=list)  # the place of its document in the lists above
    ordinals: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    text_hashes: list[str] = field(default_factory=list)
    encoded_texts: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, prepared: Sequence[PreparedDocument], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> "NewDocuments":
        """Lay documents out with the spans of their passages, as `cut` gave them."""
        laid = cls()
        for item, own in zip(prepared, spans, strict=True):
            laid._add(item, own)
        return laid

    def _add(self, item: PreparedDocument, spans: Sequence[tuple[int, int]]) -> None:
        document = item.document
        place = len(self.ids)
        self.ids.append(item.id)
        self.titles.append(document.title)
        self.texts.append(document.text)
        self.metadata.append(json_text(dict(document.metadata)) if document.metadata else "{}")
        self.content_hashes.append(item.content_hash)
        self.row_hashes.append(item.row_hash)
        self.sources.append(document.source)
        self.named_by_content.append(item.named_by_content)
        for ordinal, (start, end, text, digest) in enumerate(pieces_of(document, spans)):
            self.documents.append(place)
            self.ordinals.append(ordinal)
            self.starts.append(start)
            self.ends.append(end)
            self.text_hashes.append(digest)
            self.encoded_texts.append(text)
