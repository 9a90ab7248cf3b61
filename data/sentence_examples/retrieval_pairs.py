"""Pairs to learn retrieval from: queries with what answers them, titles with their texts."""

from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.retrieval_set import RetrievalSet, rows_file
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.sentence_examples.text_rows import TextRows


def pairs_of_retrieval(judged: RetrievalSet, *, folder: Path | None = None) -> SentenceExamples:
    """Pair each query with every passage that was judged to answer it.

    judged: as `read_retrieval_set(folder, split="train")` gives it; a passage is its title and text, as it
        is encoded when retrieval is measured
    folder: where the file of the texts lies that are mapped, on whose file system; None = the system's for
        temporary files

    BadInputError when no passage was judged so.
    """
    rows = [
        (judged.queries[query], judged.corpus[document])
        for query, documents in judged.judgements.items()
        for document, relevance in documents.items()
        if relevance >= 1
    ]
    if not rows:
        raise BadInputError(
            f"{judged.name} has no judgement of 1 or more. Name a set or split in which passages answer "
            "queries"
        )
    texts = tuple(dict.fromkeys(rows))
    of = counted(len(judged.queries), "query", "queries")
    notes = [*judged.notes, f"{judged.name}: {counted(len(texts), 'pair')} of {of}"]
    if len(texts) < len(rows):
        notes.append(f"{judged.name}: {counted(len(rows) - len(texts), 'exact duplicate')} left out")
    columns = ("query", "passage")
    pairs = TextRows.of(texts, 2, folder)
    return SentenceExamples(judged.name, ExampleKind.PAIRS, columns, pairs, None, (), tuple(notes))


def title_pairs(corpus: str | Path, *, folder: Path | None = None) -> SentenceExamples:
    """Pair each title of a corpus with its text: training in a field of which nothing was judged.

    corpus: a folder in BEIR's layout, or its corpus.jsonl (or .gz) with the fields title and text
    folder: where the texts are kept, as `read_sentence_examples` has it

    Rows without a title or a text are left out and counted in the notes.
    """
    place = Path(corpus)
    if place.is_dir():
        place = rows_file(place, "corpus", "name a file of examples, or a folder in BEIR's layout")
    return read_sentence_examples(
        place,
        kind=ExampleKind.PAIRS,
        columns=("title", "text"),
        name=place.resolve().parent.name,
        folder=folder,
    )
