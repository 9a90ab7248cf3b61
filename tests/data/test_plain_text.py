"""Lines or paragraphs of plain text."""

import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read
from nearsay.data.source_documents import is_hard_wrapped, paragraphs

Write = Callable[[str, str | bytes], str]
PROSE = (
    """The swifts came back in the first week of May, a little later than the year before, and for some days
there were only three of them over the roofs of the old brewery. Then the weather turned, the wind went round
to the south, and on the next morning the sky above the yard was full of their calling.""".replace("\n", " "),
    """Nobody had mended the gutter. Where it joined the wall there was a gap as wide as a hand, and it was
this gap that the birds had used for as long as anybody could remember; the landlord knew of it, and said
every spring that it would be closed, and every spring he found a reason to leave it until the
autumn.""".replace("\n", " "),
    "A short one.",
)


def wrapped(width: int = 72) -> str:
    return "\n\n".join(textwrap.fill(paragraph, width) for paragraph in PROSE) + "\n"


def texts(name: str, **options: object) -> tuple[list[str], list[str]]:
    reading = read([name], ReadOptions(**options))
    return [item.text if isinstance(item, Document) else f"! {item}" for item in reading], reading.notes


@pytest.mark.parametrize("width", [50, 60, 72, 80, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_hard_wrapped_prose_is_read_by_paragraphs_and_that_is_said(
    write: Write, width: int, end: str
) -> None:
    write("a.txt", wrapped(width).replace("\n", end))
    found, notes = texts("a.txt")
    assert found == list(PROSE)
    (note,) = notes
    assert note == Naming("a.txt", "paragraphs")


@pytest.mark.parametrize("count", [2, 3, 99])
def test_a_block_of_wrapped_lines_is_taken_line_by_line_and_that_is_said(write: Write, count: int) -> None:
    lines = textwrap.wrap(PROSE[0], 72)[:count]  # one block: nothing says that its lines belong together
    write("a.txt", "\n".join(lines))
    found, (note,) = texts("a.txt")
    assert found == lines
    assert note == Naming("a.txt", "each line")
    assert "--split paragraphs" in note
    assert texts("a.txt", split="lines") == (lines, [])
    assert texts("a.txt", split="paragraphs") == ([" ".join(lines)], [])


@pytest.mark.parametrize(
    ("split", "count"),
    [("auto", 3), ("lines", len(wrapped().split("\n")) - 3), ("paragraphs", 3), ("file", 1)],
)
def test_an_option_says_otherwise(write: Write, split: str, count: int) -> None:
    write("a.txt", wrapped())
    found, notes = texts("a.txt", split=split)
    assert len(found) == count
    assert len(notes) == (split == "auto")


@pytest.mark.parametrize(
    "text",
    [
        "The cat sleeps.\nA dog barks at the moon.\n\nIt rains.\nWhere do swifts sleep?\nIn the air.\n" * 20,
        "\n\n".join(PROSE),  # a paragraph a line
        "Attention is all you need\nBERT: pre-training of deep bidirectional transformers\n\n" * 30,  # titles
        "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n"
        "Rough winds do shake the darling buds of May,\nAnd summer's lease hath all too short a date;\n\n"
        * 3,
        "".join(f"2026-11-22 10:00:{at:02} INFO worker 3 is idle\n" for at in range(60)),
        "theory of semiconducting alloys in strong fields\nnoise in tubes\nmeasurement of phase at very low "
        "frequencies with an oscilloscope\na new circuit for counters\n\n" * 20,
        "",
    ],
    ids=["sentences", "long lines", "titles", "verse", "records", "lower case", "nothing"],
)
def test_lines_that_stand_alone_stay_lines(write: Write, text: str) -> None:
    write("a.txt", text)
    found, notes = texts("a.txt")
    assert found == [line for line in text.split("\n") if line]
    assert notes == []


CHINESE = (
    (
        "苏州城外有一座小桥，桥下的水很慢，慢得像是停住了。每天清晨，卖豆腐的老人推着车从桥上走过，"
        "车轮在石板上发出细碎的声音，河边洗衣的妇人便知道天快要亮了，于是抬起头来看一看东边的云。"
    ),
    (
        "后来桥拆了，老人也不再来。新修的马路又宽又直，汽车一辆接一辆地开过去，没有人记得从前的水声，"
        "只有春天的燕子还年年飞回来，在新楼的屋檐下面寻找旧日的巢，找不到，便在电线上停一会儿再飞走。"
    ),
)


def test_lines_of_a_script_without_spaces_are_joined_without_any(write: Write) -> None:
    write("a.txt", "\n\n".join("\n".join(textwrap.wrap(paragraph, 32)) for paragraph in CHINESE))
    found, (note,) = texts("a.txt")
    assert found == list(CHINESE)
    assert note == Naming("a.txt", "paragraphs")


def test_lines_of_unequal_length_in_a_script_without_spaces_stay_lines(write: Write) -> None:
    titles = [CHINESE[at % 2][at : at + 14 + 7 * at % 25] for at in range(24)]
    lines = [title.strip("，。") for title in titles]
    write("a.txt", "\n\n".join("\n".join(lines[at : at + 6]) for at in range(0, 24, 6)))
    assert texts("a.txt") == (lines, [])


def test_text_that_people_wrap_by_hand_is_read_by_paragraphs(write: Write) -> None:
    lines = wrapped(60).split("\n")
    lines[1] = lines[1].replace(" ", "\n", 1)  # short lines where something was put in afterwards
    lines[4] = lines[4].replace(" ", "\n", 1)
    write("a.txt", "\n".join(lines))
    assert texts("a.txt")[0] == list(PROSE)


def test_a_log_is_read_by_lines_however_it_looks(write: Write) -> None:
    write("a.log", wrapped())
    write("b.log.gz", "one\ntwo\n")
    assert texts("a.log")[0] == [line for line in wrapped().split("\n") if line]
    assert texts("b.log.gz")[0] == ["one", "two"]


def test_a_paragraph_has_the_number_of_its_first_line(write: Write) -> None:
    write("a.txt", "\n" + wrapped())
    reading = read(["a.txt"])
    assert [item.line for item in reading if isinstance(item, Document)] == [2, 8, 14]


def test_words_cut_at_a_hyphen_stay_together() -> None:
    lines = [(1, "a well-"), (2, "known"), (3, "range of 3 -"), (4, "and --"), (5, "so on")]
    assert list(paragraphs(lines, "a.txt", 99)) == [(1, "a well-known range of 3 - and -- so on")]


def test_a_paragraph_over_the_limit_is_one_fault_and_the_next_is_read() -> None:
    lines = [(at, "x" * 9) for at in range(1, 100)] + [(100, ""), (101, "good")]
    fault, good = paragraphs(lines, "a.txt", 50)
    assert isinstance(fault, Fault)
    assert fault.line == 1
    assert good == (101, "good")


def test_a_line_that_cannot_be_read_ends_a_paragraph() -> None:
    bad = Fault("a.txt", 2, "bad")
    assert list(paragraphs([(1, "one"), bad, (3, "two"), (4, "three")], "a.txt", 99)) == [
        (1, "one"),
        bad,
        (3, "two three"),
    ]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30), max_size=30))
def test_no_word_is_lost_whatever_is_written(lines: list[str]) -> None:
    numbered = [(at, line) for at, line in enumerate(lines, 1)]
    is_hard_wrapped(numbered)
    found = [item[1] for item in paragraphs(numbered, "a.txt", 10**6) if not isinstance(item, Fault)]
    assert "".join("".join(found).split()) == "".join("".join(lines).split())
