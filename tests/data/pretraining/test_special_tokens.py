"""The five tokens that stand for no text."""

import pytest
from tokenizers import Tokenizer, models

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.special_tokens import SpecialTokens


def test_they_are_found_by_their_names(tokenizer: Tokenizer) -> None:
    found = SpecialTokens.from_tokenizer(tokenizer)
    assert found == SpecialTokens(pad=0, unknown=1, cls=2, sep=3, mask=4)
    assert found.ids == (0, 1, 2, 3, 4)


def test_a_tokenizer_without_them_is_refused_by_their_names() -> None:
    bare = Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1, "[PAD]": 2}, unk_token="[UNK]"))
    with pytest.raises(BadInputError, match=r"\[SEP\], \[MASK\].*nearsay train vocabulary"):
        SpecialTokens.from_tokenizer(bare)


@pytest.mark.parametrize("ids", [(0, 1, 2, 2, 4), (0, 1, 2, 3, -1)])
def test_each_has_a_number_of_its_own(ids: tuple[int, ...]) -> None:
    with pytest.raises(BadInputError, match=r"each .*its own"):
        SpecialTokens(*ids)
