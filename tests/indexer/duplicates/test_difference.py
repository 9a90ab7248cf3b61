"""Two texts side by side."""

from nearsay.indexer.duplicates.merging import Part, difference


def test_what_only_one_text_says_is_told_apart():
    found = difference("boil it once", "boil it twice")
    assert found.first == (Part("boil it ", alone=False), Part("once", alone=True))
    assert found.second == (Part("boil it ", alone=False), Part("twice", alone=True))
    assert not found.same
    assert not found.cut


def test_the_same_text_differs_in_nothing():
    assert difference("boil it once", "boil it once").same


def test_both_sides_give_their_text_back():
    one, other = "a b c. d", "a x c, d e\n f"
    found = difference(one, other)
    assert "".join(part.text for part in found.first) == one
    assert "".join(part.text for part in found.second) == other


def test_how_words_are_spaced_does_not_matter():
    assert difference("boil  it\nonce", "boil it once ").same


def test_long_texts_are_compared_by_their_beginnings():
    found = difference("word " * 5_000, "word " * 5_001)
    assert found.cut
    assert sum(len(part.text) for part in found.first) == 6_000
