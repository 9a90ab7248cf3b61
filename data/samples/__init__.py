"""Our own small corpora and examples, all written for nearsay; free to use with it.

A corpus in the BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv): 660 short passages over 30 everyday and
technical subjects with their metadata (subject, date, kind, level), and 140 queries with graded judgements
(3 answers it, 2 nearly, 1 helps), phrased so that shared words alone do not find the answers.

Examples for sentence encoders, each a TSV without quoting: scored pairs (0 unrelated to 5 same meaning),
premises with an entailed, a neutral and a contradicted hypothesis, and triplets of an anchor, a paraphrase
and a hard negative. They are enough to try a command or an objective on, not to train a good encoder; the
scores and labels are one person's. Shared words are no sure sign in them: some paraphrases share none, some
sentences with nearly the same words mean something else.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nearsay.data.errors import BadInputError

__all__ = ["folder", "sample_file"]

_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nli": "nli.tsv",  # label, premise, hypothesis
        "scored-pairs": "scored_pairs.tsv",  # score, sentence1, sentence2
        "triplets": "triplets.tsv",  # anchor, positive, negative
    }
)


def folder() -> Path:
    """The folder of the sample corpus."""
    return Path(str(files(__package__)))


def sample_file(name: str) -> Path:
    """The file of the sample examples nli, scored-pairs or triplets; BadInputError for another name."""
    if name not in _FILES:
        raise BadInputError(f"there is no sample {name!r}; take one of {', '.join(_FILES)}")
    return folder() / _FILES[name]
