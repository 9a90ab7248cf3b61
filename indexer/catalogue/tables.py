"""The catalogue's tables.

Passages, documents, clusters and generations are numbered within their collection by counters that only
increase, so no number is reused: a vector that outlives its passage cannot be mistaken for another passage's.
Times are ISO 8601 text in UTC, hashes are hexadecimal text. The migrations create these tables; a test
compares both.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA = "0020"  # the last migration: what a catalogue has to be at to be used

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Json = JSON().with_variant(JSONB(), "postgresql")
BigKey = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows itself only in INTEGER keys


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """A partial index over the rows that meet a condition, for both databases."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


libraries = Table(
    "libraries",
    metadata,
    Column("id", String(36), primary_key=True),  # the same as in library.json beside the segments
    Column("created_at", String(32), nullable=False),
)

collections = Table(
    "collections",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("chunking", String(60), nullable=False),
    Column("version", BigInteger, nullable=False),  # grows with every committed change: readers compare it
    Column("compactions", BigInteger, nullable=False),  # grows when removed passages are forgotten
    Column("next_document", BigInteger, nullable=False),
    Column("next_passage", BigInteger, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("next_cluster", Integer, nullable=False, server_default=text("1")),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),  # grows with every writer
    Column("writer", Json, nullable=True),  # the last one, whether it is still at work or not
    Column("next_generation", Integer, nullable=False, server_default=text("1")),
    sqlite_autoincrement=True,
)

documents = Table(
    "documents",
    metadata,
    Column("collection_id", Integer, ForeignKey("collections.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("content_hash", String(32), nullable=False),  # of title and text: decides what is embedded again
    Column("row_hash", String(32), nullable=False),  # of everything: decides what is written again
    Column("source", Text, nullable=True),
    Column("named_by_content", Boolean, nullable=False),  # the source gave no id
    Column("added_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    UniqueConstraint("collection_id", "id"),
    Index(None, "collection_id", "source"),
)

passages = Table(
    "passages",
    metadata,
    Column("collection_id", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("document", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),  # 0-based place in the document
    Column("start", Integer, nullable=False),  # characters of the document's text
    Column("end", Integer, nullable=False),
    Column("text_hash", String(32), nullable=False),  # of the text that is encoded
    ForeignKeyConstraint(["collection_id", "document"], ["documents.collection_id", "documents.number"]),
    Index(None, "collection_id", "document"),
    sqlite_with_rowid=False,
)

removed_passages = Table(
    "removed_passages",
    metadata,
    Column("sequence", BigKey, primary_key=True, autoincrement=True),
    Column("collection_id", Integer, ForeignKey("collections.id"), nullable=False),
    Column("passage", BigInteger, nullable=False),
    Index(None, "collection_id", "sequence"),
    sqlite_autoincrement=True,
)

# Documents that were given other metadata since the last compaction, so that columns are read again for them.
changed_documents = Table(
    "changed_documents",
    metadata,
    Column("sequence", BigKey, primary_key=True, autoincrement=True),
    Column("collection_id", Integer, ForeignKey("collections.id"), nullable=False),
    Column("document", BigInteger, nullable=False),
    Index(None, "collection_id", "sequence"),
    sqlite_autoincrement=True,
)

# What a metadata field holds in the documents, as it was read once; see nearsay.indexer.filters.column.
columns = Table(
    "columns",
    metadata,
    Column("collection_id", Integer, ForeignKey("collections.id"), primary_key=True, autoincrement=False),
    Column("path", Text, primary_key=True),  # a JSON list of names, from the metadata inwards; []: the owners
    Column("compactions", BigInteger, nullable=False),  # of the collection, when it was read
    Column("sequence", BigInteger, nullable=False),  # the last change, or removal, that it has
    Column("content", LargeBinary, nullable=False),
    Column("created_at", String(32), nullable=False),
)

encoders = Table(
    "encoders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),  # what loads it again
    Column("fingerprint", String(64), nullable=False, unique=True),
    Column("dimension", Integer, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("normalised", Boolean, nullable=False),
    Column("lineage", Json, nullable=False),
)

generations = Table(
    "generations",
    metadata,
    Column("collection_id", Integer, ForeignKey("collections.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("encoder_id", Integer, ForeignKey("encoders.id"), nullable=False),
    Column("state", String(10), nullable=False),
    Column("embedded_through", BigInteger, nullable=False),  # every passage up to it has a vector (watermark)
    Column("truncated", BigInteger, nullable=False),  # passages cut at the encoder's length, ever
    Column("plan", Json, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("promoted_at", String(32), nullable=True),
    Column("promotion", BigInteger, nullable=True),  # grows in the collection: a roll-back goes by it
    Column("gate", Json, nullable=True),  # what the gate measured when it was promoted last
    Column("dtype", String(8), nullable=False, server_default=text("'float32'")),  # of the stored vectors
    CheckConstraint("state IN ('building', 'ready', 'live', 'retired')", name="state"),
    _partial("uq_generations_live", "collection_id", unique=True, where="state = 'live'"),
)

# Passages above a generation's watermark that have a vector, where some before them have none yet.
embedded_ranges = Table(
    "embedded_ranges",
    metadata,
    Column("collection_id", Integer, primary_key=True, autoincrement=False),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("first_passage", BigInteger, primary_key=True, autoincrement=False),
    Column("last_passage", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
    sqlite_with_rowid=False,
)

segments = Table(
    "segments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("state", String(12), nullable=False),
    Column("sha256", String(64), nullable=False),  # also the file's name
    Column("bytes", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("first_passage", BigInteger, nullable=False),
    Column("last_passage", BigInteger, nullable=False),
    Column("created_at", String(32), nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
    CheckConstraint("kind IN ('vectors', 'index')", name="kind"),
    CheckConstraint("state IN ('current', 'quarantined')", name="state"),
    Index(None, "collection_id", "generation"),
    sqlite_autoincrement=True,
)

# The passages of a generation in clusters: one clustering a generation, the newest.
clusterings = Table(
    "clusterings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("method", String(20), nullable=False),
    Column("parameters", Json, nullable=False),
    # What moved since the clustering before; and which generation, dropped since, handed the clustering over.
    Column("report", Json, nullable=False),
    Column("passages", BigInteger, nullable=False),  # how many were looked at, outliers among them
    Column("through", BigInteger, nullable=False),  # the last of them
    Column("created_at", String(32), nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
    UniqueConstraint("collection_id", "generation"),
    sqlite_autoincrement=True,
)

clusters = Table(
    "clusters",
    metadata,
    Column("clustering", Integer, ForeignKey("clusterings.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),  # kept from clustering to clustering
    Column("parent", Integer, nullable=True),  # the cluster of the level above
    Column("level", Integer, nullable=False),  # 0: holds passages itself; 1…: holds clusters
    Column("name", Text, nullable=False),
    Column("named_by_user", Boolean, nullable=False),
    Column("terms", Json, nullable=False),  # a list of words that tell it from the others, best first
    Column("central", Json, nullable=False),  # a list of its most central passages' numbers
    Column("size", BigInteger, nullable=False),  # passages
    Column("cohesion", Double, nullable=False),  # mean cosine to its centre
    Column("silhouette", Double, nullable=True),
)

# Outliers have no row.
cluster_members = Table(
    "cluster_members",
    metadata,
    Column("clustering", Integer, ForeignKey("clusterings.id"), primary_key=True, autoincrement=False),
    Column("passage", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Integer, nullable=False),
    Column("cosine", Double, nullable=False),  # to the cluster's centre
    Index(None, "clustering", "cluster", "passage"),
    sqlite_with_rowid=False,
)

maps = Table(
    "maps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("points", LargeBinary, nullable=False),  # see nearsay.indexer.maps
    Column("passages", BigInteger, nullable=False),
    Column("through", BigInteger, nullable=False),  # the last of them
    Column("created_at", String(32), nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
    UniqueConstraint("collection_id", "generation"),
    sqlite_autoincrement=True,
)

# Queries of the user's that a generation's plan was measured with, to measure with again when it has grown.
plan_queries = Table(
    "plan_queries",
    metadata,
    Column("collection_id", Integer, primary_key=True, autoincrement=False),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("vectors", LargeBinary, nullable=False),  # float32, little-endian, row after row
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
)

# What a layer of an encoder makes of the tokens of some passages, kept as a segment of the collection.
token_samples = Table(
    "token_samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_id", Integer, ForeignKey("collections.id"), nullable=False),
    Column("source", Text, nullable=False),  # what loads the encoder
    Column("fingerprint", String(64), nullable=False),  # of the encoder
    Column("layer", Integer, nullable=False),  # from 1
    Column("tokens", BigInteger, nullable=False),
    Column("parameters", Json, nullable=False),  # lineage, seed, sizes; see nearsay.indexer.inside
    Column("sha256", String(64), nullable=False),  # of the segment
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("collection_id", "fingerprint", "layer"),
    sqlite_autoincrement=True,
)

# What the gate found: a document that says nearly the same as one that was there before.
near_duplicates = Table(
    "near_duplicates",
    metadata,
    Column("collection_id", Integer, primary_key=True, autoincrement=False),
    Column("document", BigInteger, primary_key=True, autoincrement=False),
    Column("original", BigInteger, nullable=False),
    Column("cosine", Double, nullable=False),
    Column("created_at", String(32), nullable=False),
    ForeignKeyConstraint(["collection_id", "document"], ["documents.collection_id", "documents.number"]),
    ForeignKeyConstraint(["collection_id", "original"], ["documents.collection_id", "documents.number"]),
    Index(None, "collection_id", "original"),
)

gates = Table(
    "gates",
    metadata,
    Column("collection_id", Integer, ForeignKey("collections.id"), primary_key=True, autoincrement=False),
    Column("action", String(10), nullable=False),
    Column("threshold", Double, nullable=False),  # cosine
    Column("checked_through", BigInteger, nullable=False),  # every passage up to it was looked at
    CheckConstraint("action IN ('report', 'skip', 'link')", name="action"),
)

# A person's word that a passage does or does not answer a query. It names its document by its id and holds
# the text that was judged, not a number of either: it outlives both.
judgements = Table(
    "judgements",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=True),
    Column("collection_id", Integer, ForeignKey("collections.id"), nullable=False),
    Column("query", Text, nullable=False),
    Column("query_hash", String(32), nullable=False),  # a query may be too long for an index
    Column("document_id", Text, nullable=False),
    Column("passage", Integer, nullable=False),  # 0-based place in the document
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),  # of the passage, as it was judged
    Column("text_hash", String(32), nullable=False),  # as passages.text_hash: whether it is still that text
    Column("relevant", Boolean, nullable=False),
    Column(
        "unsure", Boolean, nullable=False, server_default=text("false")
    ),  # nobody can say: relevant is false
    Column("rank", Integer, nullable=True),  # from 1; NULL: not judged in a list of hits
    Column("score", Double, nullable=True),
    Column("mode", String(10), nullable=True),
    Column("encoder", Text, nullable=True),
    Column("fingerprint", String(64), nullable=True),
    Column("generation", Integer, nullable=True),
    Column("created_at", String(32), nullable=False),
    Column("rater", Text, nullable=True),  # who said so
    Column("note", Text, nullable=True),
    UniqueConstraint(
        "collection_id",
        "query_hash",
        "document_id",
        "passage",
        name="uq_judgements_collection_id_query_hash_document_id_passage",
    ),
    sqlite_autoincrement=True,
)

# How queries are searched for in a generation, learned from judgements; live is the newest not undone.
refinements = Table(
    "refinements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("adapter", LargeBinary, nullable=True),  # see nearsay.training.sentence.query_adapter
    Column("word_weight", Double, nullable=True),  # in the fusion; NULL: the usual one
    Column("report", Json, nullable=False),  # what it was learned from, and what was measured
    Column("undone", Boolean, nullable=False),
    Column("created_at", String(32), nullable=False),
    ForeignKeyConstraint(
        ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
    ),
    Index(None, "collection_id", "generation"),
    sqlite_autoincrement=True,
)

# Jobs: work in processes of their own. Whether one that waits or runs is still alive, its lock file says.
# The table keeps the name that it was made with.
jobs = Table(
    "runs",
    metadata,
    Column("number", BigKey, primary_key=True, autoincrement=True),
    Column("kind", String(40), nullable=False),
    Column("title", Text, nullable=False),
    Column("arguments", Json, nullable=False),  # what stands behind `nearsay` on the command line: a list
    Column("working_folder", Text, nullable=False),  # where names of files in the arguments begin
    Column("collection", String(200), nullable=True),  # by name: a job outlives its collection
    Column("product", Text, nullable=True),  # what it makes: a folder, a file or a name
    Column("resumes", BigInteger, nullable=True),  # the number of the job that this one goes on with
    Column("state", String(20), nullable=False),
    Column("pid", Integer, nullable=True),
    Column("host", Text, nullable=True),
    Column("created_at", String(32), nullable=False),
    Column("started_at", String(32), nullable=True),  # NULL: its turn has not come
    Column("ended_at", String(32), nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("message", Text, nullable=True),  # why it failed, in a sentence
    Column("subject", Json, nullable=True),  # its command and the values that decide what it finds
    CheckConstraint(
        "state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'interrupted')", name="state"
    ),
    sqlite_autoincrement=True,
)
