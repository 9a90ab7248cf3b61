"""A text with words deleted: the noise of TSDAE."""

import re
from typing import Final

import numpy as np

# A word with the space before it, so that punctuation that stays keeps its place. Letters of scripts that are
# written without spaces, ideographs and kana, are each a word.
_WORD: Final = re.compile(
    r"\s*(?:[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    r"|(?:(?![\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])\w)+(?:['’-](?:(?![\u3040-\u30ff\u3400-\u9fff])\w)+)*"
    r"|[^\w\s])"
)


def deleted_words(text: str, ratio: float = 0.6, *, rng: np.random.Generator) -> str:
    """Return `text` with each word deleted with the chance `ratio`; one is kept, by chance, if none would be.

    Punctuation marks are words of their own, as in the paper's code. A text without a word comes back as it
    is.

    ratio: from 0 to below 1; the paper found 0.6 best

    Wang et al. 2021, section 3 and appendix, https://arxiv.org/abs/2104.06979
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"the ratio is {ratio}; it goes from 0 to below 1")
    words = _WORD.findall(text)
    if not words:
        return text
    kept = rng.random(len(words)) >= ratio
    if not kept.any():
        kept[rng.integers(len(words))] = True
    return "".join(word for word, stays in zip(words, kept, strict=True) if stays).strip()
