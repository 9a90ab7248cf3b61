"""Async wrapper of a collection, for event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import update_wrapper
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.collection import Collection
from nearsay.indexer.filters.parse import Where

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_SOME = 1000  # documents that one thread brings


def _awaited(
    method: Callable[Concatenate[Collection, _Arguments], _Result],
) -> Callable[Concatenate["AsyncCollection", _Arguments], Coroutine[Any, Any, _Result]]:
    async def in_a_thread(
        self: "AsyncCollection", /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        return await asyncio.to_thread(method, self.collection, *arguments, **named)

    update_wrapper(in_a_thread, method)
    return in_a_thread


class AsyncCollection:
    """The methods of a `Collection` as coroutines, each run in asyncio's default thread pool.

    papers = AsyncCollection(library.collection("papers"))
    hits = await papers.search("hungry animals in winter", k=5)

    Cancelling a call, for example by a timeout, only stops waiting for it: the thread finishes its work. What
    `explore`, `judgements` and `browser` return has no coroutines: call it with `asyncio.to_thread`.
    """

    def __init__(self, collection: Collection) -> None:
        """Nothing is read yet; `collection` remains usable."""
        self.collection = collection

    def __repr__(self) -> str:
        return f"AsyncCollection({self.collection!r})"

    async def documents(self, where: Where | None = None) -> AsyncIterator[StoredDocument]:
        """Iterate over the documents that match a filter, in order of addition."""
        found = iter(self.collection.documents(where))
        while some := await asyncio.to_thread(lambda: list(islice(found, _SOME))):
            for document in some:
                yield document

    search = _awaited(Collection.search)
    similar = _awaited(Collection.similar)
    explain = _awaited(Collection.explain)
    get = _awaited(Collection.get)
    count = _awaited(Collection.count)
    fields = _awaited(Collection.fields)
    facets = _awaited(Collection.facets)
    overview = _awaited(Collection.overview)
    add = _awaited(Collection.add)
    add_rows = _awaited(Collection.add_rows)
    update = _awaited(Collection.update)
    remove = _awaited(Collection.remove)
    rebuild = _awaited(Collection.rebuild)
    promote = _awaited(Collection.promote)
    rollback = _awaited(Collection.rollback)
    tune = _awaited(Collection.tune)
    optimize = _awaited(Collection.optimize)
    compact = _awaited(Collection.compact)
    export = _awaited(Collection.export)
    delete = _awaited(Collection.delete)
    get_ready = _awaited(Collection.get_ready)
    document = _awaited(Collection.document)
    vectors = _awaited(Collection.vectors)
    sample = _awaited(Collection.sample)
    near_duplicates = _awaited(Collection.near_duplicates)
    generations = _awaited(Collection.generations)
    warnings = _awaited(Collection.warnings)
    snapshot = _awaited(Collection.snapshot)
    exists = _awaited(Collection.exists)
    gate = _awaited(Collection.gate)
    improve = _awaited(Collection.improve)
    undo_improvement = _awaited(Collection.undo_improvement)
