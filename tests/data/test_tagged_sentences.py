"""Reading words with their BIO tags."""

from collections.abc import Callable

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.tagged_sentences import TaggedSentence, read_tagged_sentences

Write = Callable[[str, str | bytes], str]


def test_blank_lines_separate_sentences_and_each_knows_its_line(write: Write) -> None:
    name = write("a.conll", "Ada\tB-person\nsat\tO\n\n \nin\tO\nOld\tB-place\nYork\tI-place")
    found = read_tagged_sentences(name)
    assert found.sentences == [
        TaggedSentence(("Ada", "sat"), ("B-person", "O"), 1),
        TaggedSentence(("in", "Old", "York"), ("O", "B-place", "I-place"), 5),
    ]
    assert found.notes == []


def test_the_last_column_is_the_tag_and_document_lines_are_passed_over(write: Write) -> None:
    name = write("a.txt.gz", "-DOCSTART- -X- -X- O\r\n\r\nAda NNP B-NP B-PER\r\nsat VBD B-VP O\r\n")
    assert read_tagged_sentences(name).sentences == [TaggedSentence(("Ada", "sat"), ("B-PER", "O"), 3)]


def test_blanks_inside_a_word_stay_when_tabs_separate(write: Write) -> None:
    name = write("a.conll", "New York\tB-place\n😀\tO\n")
    assert read_tagged_sentences(name).sentences[0].words == ("New York", "😀")


def test_comments_between_sentences_are_passed_over(write: Write) -> None:
    name = write(
        "a.conll",
        "# sent_id = 1\n# text = Vitamin O\nAda\tB-person\n# \tO\n\n#begin document (a); part 000\n"
        "# newpar\n# O\n#\tB-sign\n\n# SYM B-NP B-sign\n",
    )
    assert read_tagged_sentences(name).sentences == [
        TaggedSentence(("Ada", "#"), ("B-person", "O"), 3),
        TaggedSentence(("#", "#"), ("O", "B-sign"), 8),
        TaggedSentence(("#",), ("B-sign",), 11),
    ]


def test_an_i_that_continues_nothing_is_taken_and_counted(write: Write) -> None:
    name = write("a.conll", "a\tI-x\nb\tI-x\nc\tI-y\nd\tO\ne\tI-x\n\nf\tI-x\n")
    assert read_tagged_sentences(name).notes == [Naming("a.conll", "4 I- tags", "begins one")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("Ada\tB-person\nsat\n", r"a\.conll:2: 'sat' .*without a tag"),
        ("Ada\tperson\n", r"a\.conll:1: .*'person'.*O, B-type and I-type"),
        ("Ada\tS-person\n", r"a\.conll:1: the tag is 'S-person'"),
        ("Ada\tB-\n", r"a\.conll:1: the tag is 'B-'"),
        ("Ada\tB\n", r"a\.conll:1: the tag is 'B'"),
        ("Ada\to\n", r"a\.conll:1: the tag is 'o'"),
        ("a\tO\n\t O\n", r"a\.conll:2: .*no word .*'O'"),
        ("\n\n", r"a\.conll holds no tagged words"),
        ("", r"a\.conll holds no tagged words"),
        (b"Ada\tO\n\xff\tO\n", r"a\.conll:2: byte 1 .*utf-8"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number(write: Write, content: str | bytes, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_tagged_sentences(write("a.conll", content))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInputError, match=r"nowhere\.conll does not exist"):
        read_tagged_sentences("nowhere.conll")


def test_a_no_break_space_is_part_of_its_word(write: Write) -> None:
    name = write("a.conll", "10\u00a0000 CD B-number\nFrancs  NNP  O\n")
    assert read_tagged_sentences(name).sentences == [
        TaggedSentence(("10\u00a0000", "Francs"), ("B-number", "O"), 1)
    ]


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", " \u3000 "])
def test_any_white_space_separates_columns_where_no_other_does(write: Write, space: str) -> None:
    name = write("a.conll", f"東京{space}B-place\n都{space}I-place\n")
    assert read_tagged_sentences(name).sentences == [
        TaggedSentence(("東京", "都"), ("B-place", "I-place"), 1)
    ]
    name = write("b.conll", f"東京{space}NNP{space}B-place\n")
    assert read_tagged_sentences(name).sentences == [TaggedSentence(("東京",), ("B-place",), 1)]


@pytest.mark.parametrize("word", ["\u0085", "\u00a0", "\u3000"])
def test_a_word_may_be_a_space_that_no_column_ends_with(write: Write, word: str) -> None:
    name = write("a.conll", f"a O\n{word} O\nb\tO\n{word}\tO\n")
    assert read_tagged_sentences(name).sentences == [TaggedSentence(("a", word, "b", word), ("O",) * 4, 1)]


def test_words_that_are_numbers_of_words_are_refused(write: Write) -> None:
    name = write("a.tsv", "1\tAda\tB-person\tO\n2\tsat\tO\tO\n\n1\tthere\tO\tO\n")
    with pytest.raises(BadInputError, match=r"first column numbers.*cut -f2,3 a\.tsv"):
        read_tagged_sentences(name)
    assert len(read_tagged_sentences(write("b.tsv", "1\tO\n2\tO\n\nAda\tB-person\n")).sentences) == 2
