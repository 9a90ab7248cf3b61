"""A library: a folder and a catalogue database."""

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
    """A folder with collections and the encoders that embed them. Open one with `Library.open`.

    Thread-safe. Encoders are loaded once and cached.
    """

    def __init__(
        self,
        store: Store,
        load_encoder: EncoderLoader,
        look_at_encoder: Callable[[str], str | None] | None = None,
    ) -> None:
        """Use `Library.open`. `look_at_encoder`: computes an encoder's fingerprint without loading it."""
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
        """Open the library in `folder`, creating it if it does not exist.

        database:     URL of a PostgreSQL database for the catalogue; None = SQLite in the folder
        device:       device for the encoders: cpu, cuda, cuda:1 or mps; None = the fastest available. With
                      cuda (all GPUs that FAISS can use) or cuda:1, searches run on the GPU, too; with None
                      they run on the CPU, because every process would have to copy the vectors to the GPU
                      first
        precision:    number format for the encoders: auto, float32, bfloat16 or float16
        create:       False = raise an error if there is no library in the folder
        load_encoder: function that loads an encoder by name or folder; None = load it from disk or the hub
        wait:         seconds to wait for another writer before BusyError, which names that writer. Methods
                      that write have a `wait` of their own
        cluster:      Ray cluster whose workers embed documents, see `Cluster`. Its machines need the
                      library's folder under the same path, and a PostgreSQL catalogue unless it is a single
                      machine

        Raises BadInputError if there is no library and `create` is False, or if the URL is invalid;
        CatalogueError if the folder and the catalogue do not match or cannot be read; MissingExtraError if
        the PostgreSQL extra is not installed; DiskFullError. All of them derive from NearsayError.
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
                else f"the catalogue of {home} is the SQLite file inside it. Omit --database, and "
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
        """The folder, and where the catalogue is if it is not in the folder."""
        where = "" if self.store.database.dialect == "sqlite" else ", catalogue in PostgreSQL"
        return f"Library({str(self.store.folder)!r}{where})"

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database connections and disconnect from the cluster."""
        if self._shards is not None:
            self._shards.close()
            self._shards = None
        self.store.database.close()

    def serve(self, collection: str, shards: int, replicas: int = 1) -> "list[ShardState]":
        """Start search shards for a collection's live generation on the cluster, replacing running ones.

        returns: the state of each shard. Libraries opened with Cluster(…, searches=True) use them until
                 `release`

        Raises ClusterError if the files cannot be divided into that many shards, BusyError if another process
        is doing the same.
        """
        from nearsay.indexer.cluster.serving import serve

        return serve(self.store, self.collection(collection)._record.row(), shards, replicas)  # noqa: SLF001

    def release(self, collection: str) -> int:
        """Stop the shards that `serve` started, also of a deleted collection. Returns how many."""
        from nearsay.indexer.cluster.serving import release

        record = self.collection(collection)._record  # noqa: SLF001
        ended = release(self.store, collection, record.row() if record.exists() else None)
        if not ended:
            record.row()  # UnknownCollectionError where there is none
        return ended

    @property
    def shards(self) -> "Shards | None":
        """The shards that answer searches; None = this process does."""
        cluster = self.store.cluster
        if self._shards is None and cluster is not None and cluster.searches:
            from nearsay.indexer.cluster.serving import Shards

            self._shards = Shards(cluster, self.store)
        return self._shards

    @property
    def encoders(self) -> "Encoders":
        """The list of encoders: bundled, trained in this library, or used by its collections."""
        from nearsay.indexer.encoders import Encoders

        return Encoders(self.store.folder, self.store.database)

    def encoder(
        self, source: str | TextEncoder, *, fingerprint: str | None = None, anew: bool = False
    ) -> TextEncoder:
        """Load an encoder, or return the cached one. An encoder object is returned unchanged.

        source:      a name from `encoders`, a folder, or a name on the hub
        fingerprint: expected fingerprint; an encoder cached before its folder changed is loaded again
        anew:        ignore the cache
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
        """The current fingerprint of an encoder, computed without loading it; None if it is unknown.

        It is unknown if the encoder is not on this machine, or if `load_encoder` has not loaded it yet.
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
        """Get a collection. It is created when documents are first added.

        encoder:  name, folder or encoder object; None = the collection's encoder, or the bundled one for a
                  new collection; `VectorsOnly` if you compute the vectors yourself
        chunking: none, sentences, tokens or tokens:LENGTH:OVERLAP; None = the collection's, or tokens
        recall:   recall target of the index, as "0.95@10" (the default): the share of the exact 10 nearest
                  passages that a search must return
        memory:   memory limit of an index, as "2GB". Both settings are saved with the next addition; an
                  existing index keeps its own until a new one is measured
        dtype:    float32, float16 or int8: how new vectors, and those of `rebuild`, are stored; None = as
                  they are, or float32. Scores are computed from the rounded vectors

        Raises BadInputError for an invalid name or setting.
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
        """Get a collection as an object shared by all callers, so that its open files are reused.

        The last eight are cached.
        """
        with self._sharing:
            kept = self._shared.pop(name, None) or self.collection(name)
            self._shared[name] = kept
            for oldest in list(self._shared)[:-_KEPT]:
                del self._shared[oldest]
        return kept

    def names(self) -> list[str]:
        """The names of all collections, sorted."""
        with self.store.database.reading() as connection:
            return collections.names(connection)

    def collections(self) -> list[Collection]:
        """All collections, sorted by name."""
        return [self.collection(name) for name in self.names()]


def _identity(path: Path) -> dict[str, Any]:
    """The folder's id and kind of catalogue; empty if it is not a library yet."""
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
    """The URL with the absolute path of a SQLite file, because cluster workers start in other folders."""
    if not database.startswith("sqlite:///"):
        return database
    url = sa.make_url(database)
    return url.set(database=str(Path(url.database).resolve())) if url.database else url


def _agree(catalogue: Database, identity: Path, kept: dict[str, Any], wanted: str) -> None:
    """Check that folder and database belong together: segments are useless with another database."""
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
