"""BM25: ranking by shared words, to compare with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["Bm25"]

_WORD = r"(?u)\b\w+\b"


class Bm25:
    """Scores texts by the words that they share with a query; a word is a run of letters and digits.

    score = sum over the query's words of idf · tf / (tf + k1 · (1 - b + b · length / mean length))
    idf = ln(1 + (texts - texts with the word + 0.5) / (texts with the word + 0.5))

    As Lucene has it since version 8. Robertson & Zaragoza 2009, https://doi.org/10.1561/1500000019; Kamphuis
    et al. 2020 on its variants, https://doi.org/10.1007/978-3-030-45442-5_4
    """

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        """`k1`: how soon a repeated word counts no more; `b`: how much long texts are held back, 0 to 1.

        Raises BadInputError when the texts have no words.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        self._words = CountVectorizer(token_pattern=_WORD)
        try:
            counts = self._words.fit_transform(texts).tocoo()
        except ValueError as error:
            raise BadInputError(
                f"{len(texts)} texts hold no words to rank by. Give texts with some"
            ) from error
        lengths = np.bincount(counts.row, weights=counts.data, minlength=len(texts))
        documents = np.bincount(counts.col, minlength=counts.shape[1])
        idf = np.log1p((len(texts) - documents + 0.5) / (documents + 0.5))
        held_back = k1 * (1 - b + b * lengths / lengths.mean())
        counts.data = idf[counts.col] * counts.data / (counts.data + held_back[counts.row])
        self._weights = counts.tocsr().T.tocsr()  # (words, texts)

    def scores(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """Give (queries, texts) scores; a query's repeated word counts each time, an unknown one nothing."""
        return np.asarray((self._words.transform(queries) @ self._weights).toarray(), dtype=np.float64)
