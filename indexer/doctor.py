"""Checks a library: the catalogue, and whether rows, words, vectors and indexes of each collection agree."""

import contextlib
import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.durable import read_refusal
from nearsay.data.errors import NearsayError, StorageError
from nearsay.data.quantity import counted
from nearsay.data.report import Finding
from nearsay.indexer.catalogue import (
    clusterings,
    collections,
    explored,
    generations,
    passages,
    ranges,
)
from nearsay.indexer.catalogue.bulk import number_list
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import (
    EncoderRow,
    GenerationRow,
    GenerationState,
    SegmentState,
    known_encoders,
)
from nearsay.indexer.catalogue.integrity import differing_texts, file_fault, wrong_numbers
from nearsay.indexer.catalogue.lexical_rows import check_words
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.collection import Collection
from nearsay.indexer.inside.tokens import opened_sample
from nearsay.indexer.library import Library
from nearsay.indexer.plans.engine import faiss_is_installed
from nearsay.indexer.plans.engines import numbers_in
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.quarantine import is_current, remedy
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind, open_index_bytes, open_vectors
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, of_unit_length, unit_length
from nearsay.indexer.writing.compaction import leftover_folders
from nearsay.indexer.writing.given_vectors import VectorsOnly
from nearsay.training.sentence.bundled import is_bundled_name
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.light_encoder import reason_for_torch
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextKind

_SUBJECT = "catalogue"
_SAMPLE = 50  # passages that are encoded again
_LEAST_COSINE = 0.999  # between a stored vector and the same text encoded now, at any precision
_NEAREST = 10  # passages that each of them is looked for among
_DOUBT = 2.0  # standard deviations of how many of them an index finds that keeps its contract
_SEED = 20190827
_NAMED = 5  # leftover folders


def examine(library: Library, *, prove: bool = False, precision: str = "auto") -> list[Finding]:
    """Check every generation of every collection. Yields a finding per check; damage is found, not repaired.

    prove: also compare all indexes of the catalogue with their tables and all texts with their hashes, split
           all texts into words again, encode a sample of passages again, and search for each of it with its
           own vector
    precision: of the library's encoders

    Whatever cannot be read is a finding as well, and the rest is still checked.
    """
    findings = _looked(_SUBJECT, _catalogue(library, prove=prove))
    try:
        every = library.collections()
    except NearsayError as error:
        return [*findings, Finding(_SUBJECT, str(error), sound=False)]
    for collection in every:
        findings += _collection(library, collection, prove=prove)
    findings += _looked(_SUBJECT, _deleted(library))
    try:
        with library.store.database.reading() as connection:
            known = known_encoders(connection)
    except NearsayError as error:
        return [*findings, Finding("encoders", str(error), sound=False)]
    for each in known:
        uses = [use.collection for use in each.uses if use.state is not GenerationState.RETIRED]
        if uses:
            look = _encoder(library, each.encoder, sorted(set(uses)), precision)
            findings += _looked(f"encoder {each.encoder.source}", look)
    return findings


def _encoder(library: Library, row: EncoderRow, used_by: list[str], precision: str) -> Iterator[Finding]:
    """Whether an encoder is the one that embedded, and which runtime encodes queries.

    Encoders on the hub that this machine has not downloaded are skipped.
    """
    subject = f"encoder {row.source}"
    bundled = is_bundled_name(row.source)
    of_hub = not bundled and not Path(row.source).is_absolute()
    names = ", ".join(f"'{name}'" for name in used_by)
    anew = "; ".join(f"nearsay index rebuild {name} --encoder NAME_OR_FOLDER" for name in used_by)
    if not bundled and not of_hub and not Path(row.source).is_dir():
        detail = (
            f"there is no such folder, so {names} can be searched only with --mode lexical. "
            f"Restore it, or embed again: {anew}"
        )
        yield Finding(subject, detail, sound=False)
        return
    try:
        folder = find_encoder(row.source, fetch=False).folder
    except NearsayError:
        if of_hub:
            return
        raise
    found = encoder_fingerprint(folder)
    if found != row.fingerprint:
        detail = (
            f"its files changed since {names} was embedded: the fingerprint was {row.fingerprint[:12]} and "
            f"is {found[:12]}. Restore the previous files, or embed again: {anew}"
        )
        yield Finding(subject, detail, sound=False)
        return
    reason = reason_for_torch(folder, device=library.store.device, precision=precision)
    detail = (
        "questions are encoded by the light runtime, which imports no torch"
        if reason is None
        else f"questions are encoded by torch, which takes seconds to load: {reason}"
    )
    yield Finding(subject, detail, sound=True)


def _collection(library: Library, collection: Collection, *, prove: bool) -> list[Finding]:
    try:
        with library.store.database.reading() as connection:
            row = collections.find(connection, collection.name)
            every = [] if row is None else generations.all_of(connection, row.id)
    except NearsayError as error:
        return [Finding(collection.name, str(error), sound=False)]
    if row is None or not every:
        return [Finding(collection.name, "empty", sound=True)]
    looks = [_examine_generation(library, row, generation) for generation in every]
    looks += [_words(library, row, prove=prove), _numbers(library, row)]
    if prove:
        looks.append(_texts(library, row))
    looks += [_clusters(library, row), _token_samples(library, row), _orphans(library, row)]
    found = [finding for look in looks for finding in _looked(row.name, look)]
    if prove and all(finding.sound for finding in found):
        found += _looked(row.name, _prove(collection))
    return found


def _looked(subject: str, look: Iterator[Finding]) -> list[Finding]:
    """The findings of a check; if it raises an error, the error."""
    found: list[Finding] = []
    try:
        found.extend(look)
    except NearsayError as error:
        found.append(Finding(subject, str(error), sound=False))
    return found


def _finding(subject: str, detail: str, remedy: str, *, sound: bool) -> Finding:
    """A finding with its remedy if it is not sound."""
    return Finding(subject, detail if sound else f"{detail}. {remedy}", sound=sound)


def _catalogue(library: Library, *, prove: bool) -> Iterator[Finding]:
    database = library.store.database
    if database.dialect != "sqlite":
        return
    with database.reading() as connection:
        fault = file_fault(connection, full=prove)
    if fault is not None:
        detail = f"damaged: {fault}. Restore {database.engine.url.database} from a backup"
        yield Finding(_SUBJECT, f"{detail}, or begin a new library and add the documents again", sound=False)
    else:
        compared = ", each of its indexes and values compared" if prove else ""
        yield Finding(_SUBJECT, f"the database's file is whole{compared}", sound=True)


def _numbers(library: Library, row: CollectionRow) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        fault = wrong_numbers(connection, row.id)
    if fault is not None:
        detail = (
            f"{fault}: the catalogue is damaged. Restore it from a backup, or add the documents to a new one"
        )
        yield Finding(f"{row.name}, numbers", detail, sound=False)


def _texts(library: Library, row: CollectionRow) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        count, _ = collections.size(connection, row.id)
        wrong = sorted(set(differing_texts(connection, row.id)))
    if wrong:
        more = f" and {len(wrong) - 1:,} more" if wrong[1:] else ""
        yield Finding(
            f"{row.name}, texts",
            f"document '{wrong[0]}'{more} does not match its hash. Remove it, rebuild the words and add "
            f"it again: nearsay documents remove {row.name} --id {shlex.quote(wrong[0])}, "
            f"nearsay index rebuild {row.name}, nearsay documents add {row.name} FILE",
            sound=False,
        )
    else:
        detail = f"{counted(count, 'document')}, each compared with its hashes"
        yield Finding(f"{row.name}, texts", detail, sound=True)


def _examine_generation(library: Library, row: CollectionRow, generation: GenerationRow) -> Iterator[Finding]:
    subject = f"{row.name}, generation {generation.number} ({generation.state})"
    store = library.store
    with store.database.reading() as connection:
        segments = generations.segments_of(connection, row.id, generation.number)
        in_sql = passages.passage_numbers(connection, row.id)
        has_vector = ranges.embedded(connection, generation)
        gone = sa.select(removed_passages.c.passage).where(removed_passages.c.collection_id == row.id)
        removed = number_list(connection, gone)
    mending = remedy(row.name, generation)
    opened = []
    indexed: list[NDArray[np.int64]] = []
    through = 0
    for segment in segments:
        path = store.segment(row.id, segment.sha256)
        try:
            if segment.state is SegmentState.QUARANTINED:
                yield Finding(subject, f"segment {path.name} is in quarantine. {mending}", sound=False)
            elif segment.kind is SegmentKind.VECTORS:
                opened.append(open_vectors(path, segment.sha256, segment.header(generation.encoder)))
            elif faiss_is_installed():
                serialised = open_index_bytes(path, segment.sha256, segment.header(generation.encoder))
                kind = Plan.from_json(generation.plan).kind
                indexed.append(numbers_in(kind, serialised))
                through = segment.last_passage
        except StorageError as error:
            yield Finding(subject, str(error), sound=False)
        except DamagedSegmentError as error:
            if not is_current(store, row, segment):
                yield Finding(subject, "replaced by a compaction meanwhile; look again", sound=True)
                return
            yield Finding(subject, f"{error}. {mending}", sound=False)
    if len(opened) < sum(segment.kind is SegmentKind.VECTORS for segment in segments):
        return
    vectors = VectorStore([segment for segment in opened if segment.ids.size], generation.encoder.dimension)
    yield from _agreement(subject, row.name, generation, vectors, in_sql, removed, has_vector)
    if indexed:
        index_ids = np.concatenate(indexed)
        # A compaction drops removed passages from the vectors first: those left in the index are harmless.
        stray = np.intersect1d(np.setdiff1d(index_ids, vectors.ids), in_sql).size
        covered = vectors.ids[vectors.ids <= through]
        lacking = np.intersect1d(np.setdiff1d(covered, index_ids), in_sql).size
        detail = f"index of {index_ids.size:,} vectors; {stray} unknown, {lacking} lacking"
        sound = stray == 0 and lacking == 0 and np.unique(index_ids).size == index_ids.size
        yield _finding(subject, detail, mending, sound=sound)


def _agreement(
    subject: str,
    name: str,
    generation: GenerationRow,
    vectors: VectorStore,
    in_sql: np.ndarray,
    removed: np.ndarray,
    has_vector: Sequence[Range],
) -> Iterator[Finding]:
    rising = bool(np.all(np.diff(vectors.ids) > 0))
    due = in_sql[ranges.covered(has_vector, in_sql)]
    lacking = np.setdiff1d(due, vectors.ids).size
    unexplained = np.setdiff1d(np.setdiff1d(vectors.ids, in_sql), removed).size
    left = np.intersect1d(vectors.ids, removed).size
    waiting = in_sql.size - due.size
    twice = len(vectors) - np.unique(vectors.ids).size
    beyond = np.intersect1d(np.setdiff1d(in_sql, due), vectors.ids).size
    detail = (
        f"{counted(in_sql.size, 'passage')} in SQL, {counted(len(vectors), 'vector')} in "
        f"{counted(len(vectors.segments), 'segment')}, "
        f"hashes agree; {waiting:,} wait, {lacking} lack a vector, {unexplained} vectors of no passage"
    )
    detail += f", {left:,} of removed passages (nearsay index compact {name})" if left else ""
    detail += f", {twice:,} vectors twice" if twice else ""
    detail += f", {beyond:,} have a vector though they wait" if beyond else ""
    sound = rising and lacking == 0 and unexplained == 0 and beyond == 0
    mending = remedy(name, generation)
    yield _finding(subject, detail, mending, sound=sound)
    if not all(of_unit_length(segment.vectors).all() for segment in vectors.segments):
        yield Finding(subject, f"vectors that are not of unit length. {mending}", sound=False)


def _words(library: Library, row: CollectionRow, *, prove: bool) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        count = passages.passage_numbers(connection, row.id).size
        fault = check_words(connection, row.id, prove=prove)
    compared = ", each word compared with the text" if prove else ""
    said = f"those of {count:,} passages are there{compared}" if fault is None else str(fault)
    anew = f"Recreate them: nearsay index rebuild {row.name}"
    yield _finding(f"{row.name}, words", said, anew, sound=fault is None)


def _clusters(library: Library, row: CollectionRow) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        if clusterings.latest(connection, row.id) is None:
            return
        stray = clusterings.stray_members(connection, row.id)
    detail = f"{stray} members that are no passage or in no cluster"
    anew = f"Recreate them: nearsay explore clusters {row.name} --replace"
    yield _finding(f"{row.name}, clusters", detail, anew, sound=not stray)


def _token_samples(library: Library, row: CollectionRow) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        every = explored.samples_of(connection, row.id)
    for sample in every:
        subject = f"{row.name}, tokens of layer {sample.layer} of {sample.source}"
        try:
            opened_sample(library.store, sample)
        except DamagedSegmentError as error:
            anew = (
                f"nearsay encoders inside sample {row.name} --encoder {sample.source} --layer {sample.layer}"
            )
            yield Finding(subject, f"{error}. Create the sample again: {anew} --replace", sound=False)
        else:
            yield Finding(subject, f"{sample.tokens:,} tokens, as they were written", sound=True)


def _orphans(library: Library, row: CollectionRow) -> Iterator[Finding]:
    with library.store.database.reading() as connection:
        named = {segment.sha256 for segment in generations.segments_of(connection, row.id)}
        named |= explored.sample_files(connection, row.id)
    folder = library.store.segments(row.id)
    sizes = []
    try:
        for path in folder.iterdir():
            if path.stem not in named:
                with contextlib.suppress(FileNotFoundError):  # a writer at work took it away in between
                    sizes.append(path.stat().st_size)
    except FileNotFoundError:
        pass
    except OSError as error:
        yield Finding(row.name, str(read_refusal(folder, error)), sound=False)
        return
    detail = f"{counted(len(sizes), 'file')} that nothing points to"
    if sizes:
        detail += f" ({sum(sizes) / 1e6:.1f} MB; nearsay index compact {row.name})"
    yield Finding(row.name, detail, sound=True)


def _deleted(library: Library) -> Iterator[Finding]:
    """What deleted collections and earlier versions left behind, if anything."""
    if folders := leftover_folders(library.store):
        named = ", ".join(str(each.relative_to(library.store.folder)) for each in folders[:_NAMED])
        more = ", …" if folders[_NAMED:] else ""
        detail = f"{counted(len(folders), 'folder')} that nothing belongs to ({named}{more})"
        yield Finding(_SUBJECT, f"{detail}: the next `nearsay index compact` removes them", sound=True)


def _prove(collection: Collection) -> Iterator[Finding]:
    """Encode a sample again and search with each stored vector, which has to find its own passage."""
    subject = f"{collection.name}, proof"
    try:
        sample = collection.sample(_SAMPLE, _SEED)
    except NearsayError as error:
        yield Finding(subject, str(error), sound=False)
        return
    if not sample.texts:
        yield Finding(subject, "no passages to prove it with", sound=True)
        return
    name, source = collection.name, sample.snapshot.generation.encoder.source
    anew = (
        f"Embed it again: nearsay index rebuild {name} --encoder {source}, then nearsay index promote {name}"
    )
    if isinstance(sample.encoder, VectorsOnly):
        yield Finding(subject, "its vectors are made elsewhere and cannot be made again here", sound=True)
    else:
        again = unit_length(sample.encoder.encode(sample.texts, kind=TextKind.PASSAGE))
        cosines = np.einsum("ij,ij->i", again, sample.vectors)
        sound = bool(cosines.min() >= _LEAST_COSINE)
        detail = (
            f"{counted(len(sample.texts), 'passage')} encoded again: cosine to what is stored at least "
            f"{cosines.min():.5f}"
        )
        yield _finding(subject, detail, anew, sound=sound)
    snapshot, count = sample.snapshot, len(sample.texts)
    missed = [
        (number, vector)
        for number, vector in zip(sample.numbers, sample.vectors, strict=True)
        if not _first(snapshot.nearest(vector, _NEAREST), number)
    ]
    detail = f"{count - len(missed)} of {count} found themselves first"
    # An index may miss what its contract lets it; exact search tells whether vectors are their passages'.
    exact = all(
        _first(snapshot.vectors.nearest(vector, _NEAREST, snapshot.alive), number)
        for number, vector in missed
    )
    if not exact or snapshot.answered_by == PlanKind.EXACT:
        yield _finding(subject, detail, anew, sound=not missed)
        return
    recall = snapshot.plan.contract.recall
    doubt = _DOUBT * math.sqrt(count * recall * (1.0 - recall))
    detail += f" through the index, whose contract is {snapshot.plan.contract}" if missed else ""
    remedy = f"Choose and build the index again: nearsay index tune {name}"
    yield _finding(subject, detail, remedy, sound=len(missed) <= count * (1.0 - recall) + doubt)


def _first(found: Candidates, passage: int) -> bool:
    """Whether a passage is first among the results of its own vector.

    Copies of one text have equal scores, and there may be more of them than results.
    """
    ties = found.ids[found.scores >= found.scores[0] - 1e-6] if found.ids.size else found.ids
    return passage in ties or ties.size == _NEAREST
