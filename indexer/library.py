"""A library: a folder and a catalogue database in which everything lives."""

import contextlib
import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from nearsay.data.chunking import Chunking
from nearsay.data.durable import FULL, make_folder, read_refusal, replacing
from nearsay.data.errors import BadInputError, DiskFullError, NearsayError
from nearsay.data.threads import ThreadLock
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import libraries, segments
from nearsay.indexer.collection import Collection
from nearsay.indexer.plans.plan import ContractChange
from nearsay.indexer.vectors.errors import CatalogueError
from nearsay.indexer.vectors.segment import VectorDtype
from nearsay.training.sentence.bundled import is_bundled_name
from nearsay.training.sentence.text_encoder import TextEncoder

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.cluster.serving import Shards, ShardState
    from nearsay.indexer.encoders import Encoders

WAIT: Final = 10.0  # seconds
_IDENTITY = "library.json"
_KEPT = 8  # collections, with the files that they have opened
_NAME = re.compile(r"[^\W_][\w.-]{0,99}")

EncoderLoader = Callable[[str], TextEncoder]


class Library:
    """The way in: `Library.open(folder)`, then `library.collection(name)`.

    Safe to share between threads. Encoders are loaded once and kept.
    """

    def __init__(
        self,
        store: Store,
        load_encoder: EncoderLoader,
        look_at_encoder: Callable[[str], str | None] | None = None,
    ) -> None:
        """Use `Library.open`; `look_at_encoder`: gives the fingerprint that loading a name would give."""
        self.store = store
        self._load = load_encoder
        self._look = look_at_encoder
        self._encoders: dict[str, TextEncoder] = {}
        self._shards: Shards | None = None
        self._loads: dict[str, ThreadLock] = {}  # held while the encoder of that name is loaded
        self._shared: dict[str, Collection] = {}
        self._sharing = ThreadLock()

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        database: str | None = None,
        device: str | None = None,
        precision: str = "auto",
        create: bool = True,
        load_encoder: EncoderLoader | None = None,
        wait: float = WAIT,
        cluster: "Cluster | None" = None,
    ) -> "Library":
        """Open the library in `folder`; one that is not there is made, unless `create` is false.

        database:     URL of a PostgreSQL catalogue; None for SQLite inside the folder
        device:       cpu, cuda, cuda:1, mps, for the encoders; None for the best there is. cuda (every GPU
                      that FAISS can use) and cuda:1 are also searched on; with None no GPU is, since an index
                      on a GPU is made anew by every process, from all vectors
        precision:    auto, float32, bfloat16 or float16, for the encoders that are loaded
        load_encoder: gives the encoder of a name or folder; None for one that loads it from there or a hub
        wait:         seconds that who wants to write a collection waits for another one that does; BusyError
                      after that, which names it. Each method that writes takes a `wait` of its own
        cluster:      a Ray cluster whose workers embed what is added or rebuilt; see `Cluster`. Its machines
                      see the folder under the same path, and the catalogue, which is PostgreSQL unless all
                      of it is one machine

        BadInputError for a folder without a library where `create` is false, and for a URL that names none;
        CatalogueError where folder and catalogue do not belong together or cannot be read; MissingExtraError
        for PostgreSQL without its extra; DiskFullError. All derive from NearsayError.
        """
        home = Path(folder)
        try:
            str(home).encode()
        except UnicodeEncodeError:
            raise BadInputError(
                f"the folder's name {str(home)!a} is not UTF-8, which the catalogue needs. Name another"
            ) from None
        for name in (str(home), database or ""):
            if "\0" in name:
                raise BadInputError(f"{name!r} holds a zero byte, which no name may. Name another")
        identity = home / _IDENTITY
        kept = _identity(identity)
        if not kept and not create:
            raise BadInputError(
                f"there is no library in {home}. "
                f"Make one: nearsay documents add COLLECTION FILE --library {home}"
            )
        try:
            make_folder(home)
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(f"no room left to make {home}. Free some space and try again") from error
            raise NearsayError(
                f"{home} cannot be a library ({error.strerror}). Name another folder"
            ) from error
        wanted = "sqlite" if database is None else "given"
        if kept.get("database", wanted) != wanted:
            raise BadInputError(
                f"the catalogue of {home} is a PostgreSQL database. Name it: --database URL"
                if database is None
                else f"the catalogue of {home} is the SQLite file inside it. Leave --database away, and "
                "unset NEARSAY_DATABASE"
            )
        # Not a URL as text: a folder's name may hold '?' or '%'. Workers of a cluster began in other folders.
        inside = sa.URL.create("sqlite", database=str(home.resolve() / "catalogue.sqlite"))
        given = None if database is None else _absolute(database)
        catalogue = Database(given or inside)
        try:
            catalogue.migrate(create=not kept)
            _agree(catalogue, identity, kept, wanted)
        except BaseException:
            catalogue.close()
            raise
        load = load_encoder or _loader(device, precision)
        store = Store(home.resolve(), catalogue, device, wait, cluster, load)
        return cls(store, load, None if load_encoder else _fingerprint_on_disk)

    def __repr__(self) -> str:
        """The folder, and where the catalogue is if it is not in there."""
        where = "" if self.store.database.dialect == "sqlite" else ", catalogue in PostgreSQL"
        return f"Library({str(self.store.folder)!r}{where})"

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the database connections back, and leave the cluster."""
        if self._shards is not None:
            self._shards.close()
            self._shards = None
        self.store.database.close()

    def serve(self, collection: str, shards: int, replicas: int = 1) -> "list[ShardState]":
        """Start shards of the collection's live generation on the cluster, in the place of those that run.

        returns: what each holds. Libraries opened with Cluster(…, searches=True) ask them, until `release`.
        ClusterError where the files do not divide into so many; BusyError while another process does the same
        """
        from nearsay.indexer.cluster.serving import serve

        return serve(self.store, self.collection(collection)._record.row(), shards, replicas)  # noqa: SLF001

    def release(self, collection: str) -> int:
        """End the shards that `serve` started, also of a collection that was deleted since; how many."""
        from nearsay.indexer.cluster.serving import release

        record = self.collection(collection)._record  # noqa: SLF001
        ended = release(self.store, collection, record.row() if record.exists() else None)
        if not ended:
            record.row()  # UnknownCollectionError where there is none
        return ended

    @property
    def shards(self) -> "Shards | None":
        """The way to the shards that searches go to; None where this process searches."""
        cluster = self.store.cluster
        if self._shards is None and cluster is not None and cluster.searches:
            from nearsay.indexer.cluster.serving import Shards

            self._shards = Shards(cluster, self.store)
        return self._shards

    @property
    def encoders(self) -> "Encoders":
        """The list of encoders: bundled, made by this library's trainings, used by its collections."""
        from nearsay.indexer.encoders import Encoders

        return Encoders(self.store.folder, self.store.database)

    def encoder(
        self, source: str | TextEncoder, *, fingerprint: str | None = None, anew: bool = False
    ) -> TextEncoder:
        """The encoder of a name or folder, loaded once; an encoder is given back as it is.

        source:      a name as `encoders` has it, a folder, or a hub name
        fingerprint: what it has to be; one that was loaded before its folder changed is loaded again
        anew:        load it again whatever was loaded before
        """
        if not isinstance(source, str):
            self._encoders[source.source] = source
            return source
        if source.startswith("vectors:"):  # made elsewhere: there is nothing to load
            from nearsay.indexer.writing.given_vectors import VectorsOnly

            made_elsewhere = VectorsOnly.of_source(source)
            if made_elsewhere is not None:
                return made_elsewhere
        kept = None if anew else self._kept(source, fingerprint)
        if (
            kept is None and fingerprint is None and not is_bundled_name(source)
        ):  # somebody's, not the catalogue's
            source = self.encoders.source(source)
            kept = None if anew else self._kept(source, fingerprint)
        if kept is None:
            with self._loads.setdefault(source, ThreadLock()):  # others' users do not wait for this load
                kept = None if anew else self._kept(source, fingerprint)  # loaded by another meanwhile?
                if kept is None:
                    kept = self._encoders[source] = self._load(source)
        return kept

    def fingerprint_of(self, source: str) -> str | None:
        """The fingerprint of the encoder of a name as it is now, which is not loaded; None if unknown.

        Unknown is what is not on this machine, and what a `load_encoder` of the caller has not given yet.
        """
        if self._look is not None:
            return self._look(source)
        kept = self._encoders.get(source)
        return None if kept is None else kept.fingerprint

    def _kept(self, source: str, fingerprint: str | None) -> TextEncoder | None:
        kept = self._encoders.get(source)
        return kept if kept is not None and fingerprint in (None, kept.fingerprint) else None

    def collection(
        self,
        name: str,
        *,
        encoder: str | TextEncoder | None = None,
        chunking: str | Chunking | None = None,
        recall: str | float | None = None,
        memory: str | int | None = None,
        dtype: str | None = None,
    ) -> Collection:
        """The collection of that name; it is made when documents are first added.

        encoder:  name, folder or object; None for the one it was embedded by, or the bundled one;
                  `VectorsOnly` where vectors are made elsewhere
        chunking: none, sentences, tokens or tokens:LENGTH:OVERLAP; None for what it was made with, or tokens
        recall:   the share of the nearest passages that an index has to find, as "0.95@10" (the usual)
        memory:   the most memory that an index may hold, as "2GB"; both are kept when something is added, but
            where an index was measured for others already, only when one is measured for these
        dtype:    float32, float16 or int8: how vectors are stored that are first added, or that `rebuild`
            makes by an encoder; None for as they are, or float32. Scores are those of the rounded vectors

        BadInputError for a name or a setting that cannot be used.
        """
        if not _NAME.fullmatch(name):
            raise BadInputError(
                f"'{name}' is not a name for a collection. Use up to 100 letters, digits, '-', '_' and '.', "
                "a letter or digit first"
            )
        parsed = Chunking.parse(chunking) if isinstance(chunking, str) else chunking
        if dtype is not None and dtype not in set(VectorDtype):
            raise BadInputError(f"dtype is '{dtype}'. Give {', '.join(VectorDtype)}")
        stored = None if dtype is None else VectorDtype(dtype)
        record = CollectionRecord(self.store, name, parsed, stored)
        return Collection(self, record, encoder, ContractChange(recall, memory))

    def shared(self, name: str) -> Collection:
        """The collection of that name, one object for all who ask: what one has opened, others find open.

        The last eight are kept.
        """
        with self._sharing:
            kept = self._shared.pop(name, None) or self.collection(name)
            self._shared[name] = kept
            for oldest in list(self._shared)[:-_KEPT]:
                del self._shared[oldest]
        return kept

    def names(self) -> list[str]:
        """The names of the collections, in order."""
        with self.store.database.reading() as connection:
            return collections.names(connection)

    def collections(self) -> list[Collection]:
        """The collections, by name."""
        return [self.collection(name) for name in self.names()]


def _identity(path: Path) -> dict[str, Any]:
    """The folder's own id and kind of catalogue; empty if it is no library yet."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        return {"id": str(kept["id"]), "database": str(kept["database"])}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise read_refusal(path, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CatalogueError(f"{path} cannot be read ({error}). Restore it from a backup") from error


def _absolute(database: str) -> str | sa.URL:
    """The URL with the whole path of a SQLite file: workers of a cluster began in other folders."""
    if not database.startswith("sqlite:///"):
        return database
    url = sa.make_url(database)
    return url.set(database=str(Path(url.database).resolve())) if url.database else url


def _agree(catalogue: Database, identity: Path, kept: dict[str, Any], wanted: str) -> None:
    """The folder and the database have to belong together: segments of one make no sense beside the other."""
    with catalogue.reading() as connection:
        known = connection.execute(sa.select(libraries.c.id)).scalar_one_or_none()
        used = connection.execute(sa.select(sa.exists().select_from(segments))).scalar_one()
    if used and not kept and not (identity.parent / "segments").is_dir():
        # Its segments lie elsewhere: here they would all look damaged.
        raise CatalogueError(
            f"the catalogue belongs to a library in another folder than {identity.parent}. "
            "Name that folder, or another database"
        )
    if known is None and not kept:
        with catalogue.writing() as connection:
            if catalogue.dialect == "postgresql":  # SQLite has one writer as it is
                connection.execute(sa.text("LOCK TABLE libraries IN EXCLUSIVE MODE"))
            known = connection.execute(sa.select(libraries.c.id)).scalar_one_or_none() or str(uuid.uuid4())
            connection.execute(libraries.delete())
            connection.execute(libraries.insert().values(id=known, created_at=now()))
    if kept and kept["id"] != known:
        raise CatalogueError(
            f"the folder {identity.parent} and the catalogue belong to different libraries. "
            "Name the folder and the database that belong together"
        )
    if not kept:
        with replacing(identity) as stream:
            stream.write(json.dumps({"format": 1, "id": known, "database": wanted}).encode())


def _loader(device: str | None, precision: str) -> EncoderLoader:
    def load(source: str) -> TextEncoder:
        from nearsay.training.sentence.light_encoder import open_encoder

        return open_encoder(source, device=device, precision=precision)

    return load


def _fingerprint_on_disk(source: str) -> str | None:
    from nearsay.training.sentence.fingerprint import encoder_fingerprint
    from nearsay.training.sentence.source import find_encoder

    if not is_bundled_name(source) and not Path(source).is_dir():  # a hub is not asked
        return None
    with contextlib.suppress(NearsayError):
        return encoder_fingerprint(find_encoder(source).folder)
    return None
