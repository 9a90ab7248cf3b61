"""Which encoding each file is read in."""

import json
from collections.abc import Callable

import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.lines import settled_encoding
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read
from nearsay.data.row_files import file_rows

SAID = "Der Käse reift über Monate im kühlen Keller, und die Mäuse wissen es längst."
Write = Callable[[str, str | bytes], str]


def texts(folder: str, **options: object) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """The text of each file, the faults, and the encodings that were found."""
    reading = read([folder], ReadOptions(**options))
    items = list(reading)
    found = {
        (item.source or "").rpartition("/")[2]: item.text for item in items if isinstance(item, Document)
    }
    return found, [str(item) for item in items if isinstance(item, Fault)], reading.encodings


def folder_of_both(write: Write) -> set[str]:
    names = set()
    for encoding in ("utf-8", "cp1252"):
        rows = {
            "txt": SAID,
            "md": SAID,
            "html": f"<p>{SAID}",
            "csv": f"text,größe\n{SAID.replace(',', '')},groß",
            "jsonl": json.dumps({"text": SAID}, ensure_ascii=False),
        }
        for suffix, content in rows.items():
            write(f"both/{encoding}.{suffix}", content.encode(encoding))
            names.add(f"{encoding}.{suffix}")
    return names


@pytest.mark.parametrize("asked", [None, "utf-8", "cp1252", "latin-1", "utf-16"])
def test_every_file_of_a_folder_of_two_encodings_arrives(write: Write, asked: str | None) -> None:
    names = folder_of_both(write)
    found, faults, encodings = texts("both", encoding=asked)
    assert faults == []
    assert set(found) == names
    assert {text.replace(",", "") for text in found.values()} == {SAID.replace(",", "")}
    if asked is None:
        assert encodings == {f"both/{name}": "cp1252" for name in names if name.startswith("cp1252")}
    if asked == "cp1252":
        assert encodings == {f"both/{name}": "utf-8" for name in names if name.startswith("utf-8")}


def test_which_file_was_read_as_what_is_said_once_a_file(write: Write) -> None:
    write("a.txt", (SAID + "\n").encode("cp1252") * 3)
    write("b.txt", SAID.encode())
    reading = read(["a.txt", "b.txt"])
    assert len(list(reading)) == 4
    (note,) = reading.notes
    assert note.startswith("a.txt: read as cp1252")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Съешь же ещё этих мягких французских булок да выпей чаю.", "cp1251"),
        ("Съешь же ещё этих мягких французских булок да выпей чаю.", "koi8_r"),
        (
            "私はその人を常に先生と呼んでいた。だからここでもただ先生と書くだけで本名は打ち明けない。",
            "shift_jis",
        ),
        ("私はその人を常に先生と呼んでいた。①まず髙橋さんへ連絡する。㈱日本商事。", "cp932"),
        ("그는 펲시콜라를 마시며 뷁이라고 말했다. 안녕하세요 여러분.", "cp949"),
        ("วันนี้อากาศดีมาก เราไปเดินเล่นที่สวนสาธารณะกันเถอะ", "cp874"),
        ("היום מזג האוויר יפה. בוא נלך לטייל בפארק.", "cp1255"),
        ("мы пойдём гулять в парк и там будем кормить уток", "cp1251"),
    ],
)
def test_other_alphabets_are_told_by_their_bytes(write: Write, text: str, encoding: str) -> None:
    write("a.txt", "plain\n".encode(encoding) + f"{text}\n".encode(encoding) * 4)
    assert [item.text for item in read(["a.txt"])] == ["plain", *[text] * 4]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("A canção da avó não é só para as crianças. Os irmãos comeram pão com limões e maçãs.", "cp1252"),
        ("Né en août, dû à l'été", "cp1252"),
        ("Það er mjög fallegt land. Veðrið er oft slæmt en bærinn nýr. Hvað heitir þú?", "cp1252"),
        ("Eesti keel on ilus. Õhtul läksime jõe äärde ja püüdsime kalu.", "cp1252"),
        ("Wszystkie dzieci nasze są. Miło mi Pana poznać, proszę usiąść przy oknie.", "cp1250"),
        ("Nový rok začal sněhem. Mám rád český chléb a pivo z Plzně. Děkuji pěkně.", "cp1250"),
        ("Jó napot kívánok! Szép időnk van.", "cp1250"),
        ("Ploaia cădea pe casă. A găsit o găoace sub fereastră şi a plecat fără să spună nimic.", "cp1250"),
        ("дорога в город", "cp1251"),
        ("он говорил о том, что видел в городе", "cp1251"),
        ("Lietuvių kalba yra graži. Šiandien lyja, o rytoj švies saulė. Ačiū už pagalbą.", "cp1257"),
        ("Vakar mes ėjome į mišką ir radome daug grybų, žemuogių bei šermukšnių.", "cp1257"),
        ("Rīga ir Latvijas galvaspilsēta, kurā dzīvo daudz cilvēku un šķērso Daugavu.", "cp1257"),
        ("Føroyar eru vakrar, tað er gott at vera her", "cp1252"),
        ("Ça coûte 12 €. Où est la sœur de l'élève?", "iso8859_15"),
        ("Das kostet 25 € im Geschäft.", "iso8859_15"),
        ("Größe ½ und ¼ der Straße", "cp1252"),
        ("Bugün hava çok güzel. Şehir dışına çıkıp yürüyüş yapmak istiyorum.", "cp1254"),
    ],
)
def test_languages_of_like_encodings_are_told_by_their_letters(
    write: Write, text: str, encoding: str
) -> None:
    (found,) = read([write("a.txt", text.encode(encoding))])
    assert isinstance(found, Document)
    assert found.text == text


@pytest.mark.long
def test_letters_after_megabytes_of_ascii_decide(write: Write) -> None:
    write("a.txt", ("plain\n" * 300_000 + SAID).encode("cp1252"))
    *_, last = read(["a.txt"])
    assert last.text == SAID


def test_a_mark_is_believed_whatever_is_asked(write: Write) -> None:
    for name, encoding in (("a.txt", "utf-8-sig"), ("b.txt", "utf-16")):
        write(name, SAID.encode(encoding))
        assert [item.text for item in read([name], ReadOptions(encoding="cp1250"))] == [SAID]


@pytest.mark.parametrize(
    ("sample", "asked", "settled"),
    [
        (b"", "utf-8", "utf-8"),
        (b"ascii alone", "cp1251", "cp1251"),
        (SAID.encode(), "utf-8", "utf-8"),
        (SAID.encode("cp1252"), "utf-8", "cp1252"),
        (SAID.encode(), "cp1252", "utf-8"),
        (SAID.encode("cp1252"), "cp1252", "cp1252"),
        (SAID.encode("cp1252"), "cp1250", "cp1250"),  # who asks knows better than a guess
        ("联通".encode("gb18030"), "gb18030", "gb18030"),  # two letters that are UTF-8 by chance
        (SAID.encode() + b"\nbad \xff\n" + SAID.encode(), "utf-8", "utf-8"),
        (SAID.encode() + b"\n" + SAID.encode("cp1252"), "cp1252", "cp1252"),
        (b"\xff", "utf-8", "utf-8"),
    ],
)
def test_the_encoding_asked_for_stays_unless_the_bytes_speak_against_it(
    sample: bytes, asked: str, settled: str
) -> None:
    assert settled_encoding(sample, asked) == settled


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_utf_16_without_a_mark_is_read(write: Write, encoding: str, end: str) -> None:
    write("n/a.txt", f"{SAID}{end}日本{end}".encode(encoding))
    write("n/b.csv", f"id,text{end}1,x{end}".encode(encoding))
    found = [item for item in read(["n"]) if isinstance(item, Document)]
    assert [item.text for item in found] == [SAID, "日本", "x"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("left", [1, 2, 3])  # bytes of a character of four, U+1D11E
def test_utf_16_that_is_cut_in_a_character_gives_its_whole_lines_and_a_fault(
    write: Write, encoding: str, mark: str, left: int
) -> None:
    cut = f"{mark}one line\nand another\nthe last \U0001d11e".encode(encoding)[: left - 4]
    good, other, fault = read([write("a.txt", cut)])
    assert [item.text for item in (good, other) if isinstance(item, Document)] == ["one line", "and another"]
    assert str(fault) == Naming("a.txt:3", "middle of a character", encoding)
    (fault,) = read([write("a.md", cut)])
    assert str(fault) == Naming("a.md", "middle of a character", encoding)
    table = f"{mark}text\tlabel\none\t1\ntwo\t\U0001d11e".encode(encoding)[: left - 4]
    with pytest.raises(BadInputError) as refused:
        list(file_rows(write("a.tsv", table)))
    assert str(refused.value) == Naming("a.tsv:3", "middle of a character", encoding)


def test_a_faulty_character_of_marked_text_gives_no_hint_of_an_encoding_that_would_not_be_believed(
    write: Write,
) -> None:
    marked = "\ufeffDer K\udc80se reift\n".encode("utf-16-le", "surrogatepass")
    for name in ("a.txt", "a.md"):
        (fault,) = read([write(name, marked)])
        assert str(fault) == Naming(f"{name}:1", "byte 6")
        assert "--encoding" not in str(fault)


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("asked", ["utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", " 1"])
def test_the_order_of_bytes_without_a_mark_is_found_where_they_are_asked_for(
    write: Write, asked: str, order: str, end: str
) -> None:
    content = f"{SAID}{end}".encode(f"{asked}-{order}")
    (found,) = read([write("a.txt", content)], ReadOptions(encoding=asked))
    assert isinstance(found, Document)
    assert found.text == f"{SAID}{end}".strip()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_script_with_the_byte_of_a_line_end_in_each_letter_is_utf_16_too(
    write: Write, encoding: str
) -> None:
    said = ["ટ્રેન આજે સાંજે મોડી આવી.", "ગાડી આવી."]
    found = read([write("a.tsv", "\n".join(["text", *said]).encode(encoding))])
    assert [item.text for item in found if isinstance(item, Document)] == said


def test_bytes_of_no_text_are_not_taken_for_utf_16(write: Write) -> None:
    damaged = b"text,n\n\0\0\1\1\nlast,1\n"
    umlauts = "der K\u00e4se reift im Keller\n\0\0\1\1\n".encode("cp1252")
    for content in (b"a\0 cow\n", b"\0\0\0\0a\n", b"\0a\nand more of it\n", damaged, umlauts):
        assert any(isinstance(item, Fault) for item in read([write("a.txt", content)]))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "said",
    [
        "Съешь же ещё этих мягких французских булок да выпей чаю.",
        "私はその人を常に先生と呼んでいた。\u3000だからここでもただ先生と書く。",
        "오늘은 날씨가 좋다. 산책하러 가자.",
        "وصل القطار متأخرا هذا المساء.",
        "रेलगाड़ी आज शाम देर से पहुँची।",
        # Each with letters that have the byte of a line end: U+4E0A and U+300A, U+0E0A, U+090A, all, U+010A.
        "上海是中国的城市,上海人早上乘地铁去上班,晚上在外滩上散步。《上海早晨》是一本书。" * 4,
        "ชาวบ้านชอบช้างและชอบชาเย็นในตอนเช้า",
        "ऊपर ऊँट ऊन ऊब गया।",
        "1 ਰੇਲਗੱਡੀ ਅੱਜ ਸ਼ਾਮ ਦੇਰ ਨਾਲ ਪਹੁੰਚੀ।",
        "Iċ-Ċirku u Ċ-Ċavetta ġew Ċentru Āda",
        SAID,
    ],
)
@pytest.mark.parametrize("suffix", ["txt", "tsv", "md"])
@pytest.mark.parametrize("asked", [None, "same", "utf-16"])
def test_utf16_of_any_script_without_a_mark_is_read(
    write: Write, said: str, encoding: str, suffix: str, asked: str | None
) -> None:
    lines = [f"{said} {number}" for number in range(3)]
    header = "text\n" if suffix == "tsv" else ""
    write(f"folder/one.{suffix}", (header + "\n".join(lines) + "\n").encode(encoding))
    items = list(read(["folder"], ReadOptions(encoding=encoding if asked == "same" else asked)))
    assert not [item for item in items if isinstance(item, Fault)]
    found = "\n".join(item.text for item in items if isinstance(item, Document))
    assert " ".join(found.split()) == " ".join("\n".join(lines).split())


@pytest.mark.parametrize(
    "content",
    [
        b"the cat\0sat\non the mat\nand the dog\n",
        b"abcd\0\nefgh\n",
        "der K\u00e4se\0reift\nim Keller\n".encode("cp1252"),
        b"abc\0\0\0\x01\x02\n" * 9,
    ],
)
def test_text_with_a_nul_in_it_is_not_taken_for_utf16(write: Write, content: bytes) -> None:
    _, faults, _ = texts(write("folder/one.txt", content).rpartition("/")[0])
    assert faults
