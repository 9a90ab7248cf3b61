"""Text prepared once: what is written, when it is used again, and what failures leave."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming
from tokenizers import Tokenizer, models

from nearsay.data import durable
from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.pretraining import prepare as prepare_module
from nearsay.data.pretraining.prepare import prepare_text, tokenizer_sha256
from nearsay.data.pretraining.prepare_options import PrepareOptions
from nearsay.data.pretraining.prepared_text import PreparedText

A_LINE = PrepareOptions(one_sentence_a_line=True)


def sentences(text: PreparedText) -> list[list[list[int]]]:
    """Give the tokens of each document's sentences, documents over several shards joined."""
    documents: dict[int, list[list[int]]] = {}
    for number in range(text.shards):
        shard = text.shard(number)
        for place, document in enumerate(shard.document_numbers.tolist()):
            for sentence in range(shard.document_starts[place], shard.document_starts[place + 1]):
                start, end = shard.sentence_starts[sentence : sentence + 2]
                documents.setdefault(document, []).append(shard.tokens[start:end].tolist())
    assert list(documents) == list(range(text.documents))
    return list(documents.values())


def test_a_text_becomes_tokens_sentences_and_documents(
    tokenizer_of: Callable[..., Tokenizer], write: Callable[..., Path], tmp_path: Path
) -> None:
    tokenizer = tokenizer_of(["boat", "gull", "##s", "left", "."])  # 5 to 9
    source = write("a.txt", "Boats left. Gulls left.\nBoat rope.\n\n[MASK]\n")
    text = prepare_text([source], tokenizer, tmp_path / "prepared")
    boats, gulls, rope, mask = [5, 7, 8, 9], [6, 7, 8, 9], [5, 1, 9], [1, 1, 1]
    assert sentences(text) == [[boats, gulls, rope], [mask]]  # "[MASK]" is three unknown pieces of text
    assert (text.documents, text.sentences, text.tokens, text.shards) == (2, 4, 14, 1)
    assert text.unknown_share == 4 / 14
    assert text.vocabulary_size == 10
    assert text.has_breaks
    assert text.shard(0).tokens.dtype == np.uint16
    assert isinstance(text.shard(0).tokens, np.memmap)
    assert text.tokenizer.encode("boats").tokens == ["boat", "##s"]
    assert (text.sources, text.faults, text.notes) == ((str(source),), 0, ())
    assert text.options["breaks"] == "blank-lines"


def test_shards_end_before_the_sentence_that_takes_them_past_their_size(
    tokenizer_of: Callable[..., Tokenizer], write: Callable[..., Path], tmp_path: Path
) -> None:
    tokenizer = tokenizer_of(["a", "b", "c", "d", "e"])
    source = write("a.txt", "a a\nb b\nc\n\nd d d d d\n\ne\n")
    options = PrepareOptions(one_sentence_a_line=True, shard_tokens=4)
    text = prepare_text([source], tokenizer, tmp_path / "prepared", options)
    shards = [text.shard(number) for number in range(text.shards)]
    assert [shard.tokens.tolist() for shard in shards] == [[5, 5, 6, 6], [7], [8] * 5, [9]]
    assert [shard.document_numbers.tolist() for shard in shards] == [[0], [0], [1], [2]]
    assert [shard.document_starts.tolist() for shard in shards] == [[0, 2], [0, 1], [0, 1], [0, 1]]
    assert [shard.sentence_starts.tolist() for shard in shards] == [[0, 2, 4], [0, 1], [0, 5], [0, 1]]
    assert [text.shard_with_other_documents(number) for number in range(4)] == [2, 2, 3, 0]


def test_one_document_has_no_other_and_no_breaks(prepare: Callable[..., PreparedText]) -> None:
    text = prepare("gull\nboat\nrope", shard_tokens=1)
    assert not text.has_breaks
    assert [text.shard_with_other_documents(number) for number in range(3)] == [0, 1, 2]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_shards_hold_all_sentences_in_order_whatever_their_size(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    documents: list[list[int]],
    shard_tokens: int,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    content = "\n\n".join("\n".join(" ".join(["gull"] * size) for size in lines) for lines in documents)
    (folder / "a.txt").write_text(content)
    options = PrepareOptions(one_sentence_a_line=True, shard_tokens=shard_tokens)
    with mock.patch.object(durable.os, "fsync"):  # a hundred small files
        text = prepare_text([folder / "a.txt"], tokenizer, folder / "prepared", options)
    assert [[len(sentence) for sentence in lines] for lines in sentences(text)] == documents
    for number in range(text.shards):
        shard = text.shard(number)
        assert len(shard.tokens) <= shard_tokens or len(shard.sentence_starts) == 2


def test_a_large_vocabulary_takes_wider_numbers(
    tokenizer_of: Callable[..., Tokenizer], write: Callable[..., Path], tmp_path: Path
) -> None:
    wide = tokenizer_of([f"w{number}" for number in range(70_000)])
    text = prepare_text([write("a.txt", "w69999 w0")], wide, tmp_path / "prepared", A_LINE)
    assert text.shard(0).tokens.dtype == np.uint32
    assert text.shard(0).tokens.tolist() == [70_004, 5]


def test_truncation_and_padding_of_the_tokenizer_play_no_part(
    tokenizer: Tokenizer, write: Callable[..., Path], harbour: str, tmp_path: Path
) -> None:
    cutting = Tokenizer.from_str(tokenizer.to_str())
    cutting.enable_truncation(3)
    cutting.enable_padding(length=9)
    plain = prepare_text([write("a.txt", harbour)], tokenizer, tmp_path / "plain")
    again = prepare_text([write("a.txt", harbour)], cutting, tmp_path / "cutting")
    assert tokenizer_sha256(cutting) == tokenizer_sha256(tokenizer) == again.tokenizer_sha256
    assert again.sha256 == plain.sha256
    assert cutting.encode("gull").attention_mask != [1]  # the caller's tokenizer is left as it was


class Refusing:
    """Stands in for the writer when nothing is to be written."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("it is made anew")


@pytest.fixture
def once(
    tokenizer: Tokenizer, write: Callable[..., Path], harbour: str, tmp_path: Path
) -> tuple[Path, Path, PreparedText]:
    """A source, the folder it was prepared into, and what was made."""
    source, folder = write("a.txt", harbour), tmp_path / "prepared"
    return source, folder, prepare_text([source], tokenizer, folder, A_LINE)


def test_the_same_is_not_made_twice(
    once: tuple[Path, Path, PreparedText], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder, made = once
    monkeypatch.setattr(prepare_module, "ShardWriter", Refusing)
    os.utime(source, (1, 1))
    assert prepare_text([source], tokenizer, folder, A_LINE).sha256 == made.sha256
    moved = source.rename(source.with_name("b.txt"))
    assert prepare_text([moved], tokenizer, folder, A_LINE).sha256 == made.sha256
    (folder / "prepared.json").unlink()
    with pytest.raises(RuntimeError, match="made anew"):
        prepare_text([moved], tokenizer, folder, A_LINE)


def test_a_folder_with_another_prepared_text_is_refused_and_left_as_it_is(
    once: tuple[Path, Path, PreparedText],
    tokenizer: Tokenizer,
    tokenizer_of: Callable[..., Tokenizer],
    harbour: str,
) -> None:
    source, folder, made = once
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def refused(tokenizer: Tokenizer, options: PrepareOptions) -> None:
        said: list[str] = []
        with pytest.raises(BadInputError) as raised:
            prepare_text([source], tokenizer, folder, options, report=said.append)
        assert str(raised.value) == Naming(
            folder, source, "other texts, options or tokenizer", "another folder"
        )
        assert said == []

    refused(tokenizer, PrepareOptions(one_sentence_a_line=True, shard_tokens=9))
    refused(tokenizer_of(["gull"]), A_LINE)
    source.write_text(harbour.replace("late", "fog"))  # as long as before
    refused(tokenizer, A_LINE)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    source.write_text(harbour)
    assert prepare_text([source], tokenizer, folder, A_LINE).sha256 == made.sha256


def test_many_sources_of_another_prepared_text_are_not_all_named(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path
) -> None:
    sources = [write(f"{name}.txt", f"gull {name}") for name in "abcde"]
    prepare_text(sources, tokenizer, tmp_path / "prepared")
    with pytest.raises(BadInputError, match=r"\S+a\.txt, \S+b\.txt, \S+c\.txt and 2 more"):
        prepare_text(sources[:1], tokenizer, tmp_path / "prepared")


def test_an_unfinished_preparation_is_replaced_with_nothing_of_it_left(
    tokenizer: Tokenizer, write: Callable[..., Path], harbour: str, tmp_path: Path
) -> None:
    source, folder = write("a.txt", harbour), tmp_path / "prepared"
    small = prepare_text([source], tokenizer, folder, PrepareOptions(shard_tokens=9))
    assert small.shards > 1
    (folder / "prepared.json").unlink()  # it is written last
    assert prepare_text([source], tokenizer, folder, A_LINE).shards == 1
    assert sorted(path.name for path in folder.glob("shard-*")) == [
        "shard-00000-documents.npy",
        "shard-00000-sentences.npy",
        "shard-00000-tokens.npy",
    ]


@pytest.mark.parametrize("name", ["tokenizer.json", "shard-00000-tokens.npy"])
def test_files_that_no_preparation_wrote_are_left_alone_whatever_their_names(
    name: str, tokenizer: Tokenizer, write: Callable[..., Path], harbour: str, tmp_path: Path
) -> None:
    own = tmp_path / "own" / name
    own.parent.mkdir()
    own.write_text("somebody's")
    with pytest.raises(BadInputError, match=name):
        prepare_text([write("a.txt", harbour)], tokenizer, own.parent)
    assert own.read_text() == "somebody's"
    assert [path.name for path in own.parent.iterdir()] == [name]


def test_a_text_that_changes_while_it_is_read_is_refused(
    tokenizer: Tokenizer, write: Callable[..., Path], harbour: str, tmp_path: Path
) -> None:
    source, folder = write("a.txt", harbour), tmp_path / "prepared"

    def grow(*_: object) -> None:
        with source.open("a") as stream:
            stream.write("A gull left.\n")

    with pytest.raises(BadInputError, match=r"a\.txt .*changed while"):
        prepare_text([source], tokenizer, folder, progress=grow)
    assert prepare_text([source], tokenizer, folder).documents == 2


def test_the_data_hash_is_of_the_tokens_and_the_tokenizer_alone(
    tokenizer: Tokenizer,
    tokenizer_of: Callable[..., Tokenizer],
    write: Callable[..., Path],
    harbour: str,
    tmp_path: Path,
) -> None:
    def data_sha256(name: str, content: str, tokenizer: Tokenizer = tokenizer, tokens: int = 2**20) -> str:
        options = PrepareOptions(shard_tokens=tokens)
        return prepare_text([write(name, content)], tokenizer, tmp_path / f"of-{name}", options).sha256

    first = data_sha256("a.txt", harbour)
    assert first == data_sha256("b.txt", harbour)
    assert first == data_sha256("c.txt.gz", harbour)
    assert first == data_sha256("d.txt", harbour.encode() + b"\n\nbad \xff line\n")  # left out, with a note
    os.mkfifo(tmp_path / "pipe.txt")
    writer = threading.Thread(target=(tmp_path / "pipe.txt").write_text, args=(harbour,), daemon=True)
    writer.start()
    piped = prepare_text([tmp_path / "pipe.txt"], tokenizer, tmp_path / "piped")
    writer.join()
    assert piped.sha256 == first
    others = {
        data_sha256("e.txt", harbour.replace("boat", "gull")),
        data_sha256("f.txt", harbour.replace("\n\n", "\n")),  # the same tokens in one document
        data_sha256("g.txt", harbour, tokens=9),
        data_sha256("h.txt", harbour, tokenizer_of(["gull"])),
    }
    assert len(others | {first}) == 5


def test_the_data_hash_is_as_worked_out_by_hand(once: tuple[Path, Path, PreparedText]) -> None:
    _, folder, made = once
    names = [f"shard-00000-{what}.npy" for what in ("documents", "sentences", "tokens")]
    shards = [[name, hashlib.sha256((folder / name).read_bytes()).hexdigest()] for name in names]
    tokenizer = hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    assert made.sha256 == hashlib.sha256(json.dumps([tokenizer, shards]).encode()).hexdigest()


def replaced(folder: Path, other: Path) -> None:
    """Put another preparation into the place of one, as removing and preparing again does."""
    shutil.rmtree(folder)
    other.rename(folder)


@pytest.mark.parametrize("content", ["gull boat\nrope net\n", "gull\n"])  # as large, and smaller
def test_what_was_opened_never_gives_another_preparations_tokens(
    prepare: Callable[..., PreparedText], content: str
) -> None:
    text = prepare("boat gull\nnet rope\n")
    held = prepare("boat gull\nnet rope\n", "held")
    tokens = held.shard(0).tokens.tolist()
    for opened in (text, held):
        replaced(opened.folder, prepare(content, f"other-{opened.folder.name}").folder)
    with pytest.raises(BadInputError, match=r"no longer.*opened.*Open it again"):
        text.shard(0)
    with pytest.raises(BadInputError, match=r"no longer.*opened"):
        _ = text.tokenizer
    assert held.shard(0).tokens.tolist() == tokens  # what was mapped before stays
    assert len(PreparedText.open(text.folder).shard(0).document_numbers) == 1


def test_what_was_opened_and_removed_is_told(prepare: Callable[..., PreparedText]) -> None:
    text = prepare("boat gull\nnet rope\n")
    shutil.rmtree(text.folder)
    for ask in (lambda: text.shard(0), lambda: text.tokenizer):
        with pytest.raises(BadInputError, match="no longer"):
            ask()


def test_arrays_of_other_shapes_than_the_manifests_are_refused(prepare: Callable[..., PreparedText]) -> None:
    for number, what in enumerate(("tokens", "sentences", "documents")):
        text = prepare("boat gull\nnet rope\n", f"prepared-{number}")
        path = text.folder / f"shard-00000-{what}.npy"
        values = np.load(path)
        np.save(path, np.concatenate([values, values]))
        with pytest.raises(BadInputError, match="no longer"):
            text.shard(0)
        path.write_bytes(b"")
        with pytest.raises(BadInputError, match="no longer"):
            text.shard(0)


def test_a_damaged_preparation_is_refused_and_made_anew(
    once: tuple[Path, Path, PreparedText], tokenizer: Tokenizer
) -> None:
    source, folder, made = once
    path = folder / "shard-00000-tokens.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadInputError, match=r"tokens\.npy .*not as .*written.*Prepare .*again"):
        PreparedText.open(folder)
    assert prepare_text([source], tokenizer, folder, A_LINE).sha256 == made.sha256
    PreparedText.open(folder)


@pytest.mark.parametrize("name", ["shard-00000-tokens.npy", "shard-00000-documents.npy", "tokenizer.json"])
def test_a_cut_or_missing_file_is_named(once: tuple[Path, Path, PreparedText], name: str) -> None:
    _, folder, _ = once
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadInputError, match=f"{name} .*not as .*written"):
        PreparedText.open(folder)
    path.unlink()
    with pytest.raises(BadInputError, match=f"{name} cannot be read"):
        PreparedText.open(folder)


@pytest.mark.parametrize("manifest", ["", "[]", "{", '{"format": 1}', '{"format": 1, "documents": "x"}'])
def test_a_damaged_manifest_is_refused(once: tuple[Path, Path, PreparedText], manifest: str) -> None:
    _, folder, _ = once
    (folder / "prepared.json").write_text(manifest)
    with pytest.raises(BadInputError, match=r"prepared\.json is damaged"):
        PreparedText.open(folder)


def test_other_versions_and_other_folders_are_refused(
    once: tuple[Path, Path, PreparedText], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    source, folder, _ = once
    manifest = json.loads((folder / "prepared.json").read_text())
    (folder / "prepared.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(BadInputError, match="has format 99, not 1"):
        PreparedText.open(folder)
    with pytest.raises(BadInputError, match="holds no prepared text"):
        PreparedText.open(tmp_path / "nowhere")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").write_text("mine")
    with pytest.raises(BadInputError, match=r"letter\.txt.*no prepared text"):
        prepare_text([source], tokenizer, tmp_path / "own")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["letter.txt"]
    with pytest.raises(BadInputError, match="is a file"):
        prepare_text([source], tokenizer, source)


@pytest.mark.parametrize("content", ["", " \n\n\t\n"])
def test_empty_text_is_refused_and_leaves_nothing(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path, content: str
) -> None:
    with pytest.raises(BadInputError, match=r"no text in .*empty\.txt"):
        prepare_text([write("empty.txt", content)], tokenizer, tmp_path / "prepared")
    with pytest.raises(BadInputError, match="holds no prepared text"):
        PreparedText.open(tmp_path / "prepared")


def test_a_tokenizer_without_special_tokens_is_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    bare = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    with pytest.raises(BadInputError, match=r"no \[PAD\], \[CLS\], \[SEP\], \[MASK\]"):
        prepare_text([write("a.txt", "gull")], bare, tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()


def test_faults_are_counted_reported_and_kept_in_the_manifest(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path
) -> None:
    source = write("rows.jsonl", '{"text": "A gull."}\n' + '{"text": 1}\n' * 30)
    said: list[str] = []
    text = prepare_text([source], tokenizer, tmp_path / "prepared", report=said.append)
    assert (text.faults, text.documents) == (30, 1)
    assert tuple(said[:21]) == text.notes  # what the field was guessed to be, and 20 faults
    assert said[21] == Naming(30, 20, "above")
    assert len(said) == 23
    again: list[str] = []
    prepare_text([source], tokenizer, tmp_path / "prepared", report=again.append)
    manifest = tmp_path / "prepared" / "prepared.json"
    assert again == [
        Naming(30, 20, manifest),
        said[22],
    ]
    assert text.notes[1] == Naming(f"{source}:2", "'text'", "number")
    with pytest.raises(BadInputError, match=r"rows\.jsonl:2: .*without strict"):
        prepare_text([source], tokenizer, tmp_path / "strict", PrepareOptions(strict=True))


def test_progress_goes_up_to_the_size_of_the_sources(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write("a.txt", "A gull left the old boat.\n" * 6_000)
    monkeypatch.setattr(prepare_module, "_BATCH_CHARACTERS", 2**15)
    told: list[tuple[int, int | None]] = []
    prepare_text(
        [source], tokenizer, tmp_path / "prepared", A_LINE, progress=lambda done, of: told.append((done, of))
    )
    done = [number for number, _ in told]
    assert len(told) > 2
    assert done == sorted(done)
    assert told[-1] == (source.stat().st_size, source.stat().st_size)


def test_a_full_disk_at_any_write_leaves_nothing_that_opens(
    tokenizer: Tokenizer,
    write: Callable[..., Path],
    harbour: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, folder = write("a.txt", harbour), tmp_path / "prepared"
    synchronise = os.fsync
    for failing in range(100):
        calls = iter(range(100))

        def fail(descriptor: int, failing: int = failing, calls: Iterator[int] = calls) -> None:
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            synchronise(descriptor)

        monkeypatch.setattr(durable.os, "fsync", fail)
        try:
            prepare_text([source], tokenizer, folder, PrepareOptions(shard_tokens=20))
        except DiskFullError:
            with pytest.raises(BadInputError, match="holds no prepared text"):
                PreparedText.open(folder)
            assert [path.name for path in folder.iterdir() if path.name != ".preparing.lock"] == []
        else:
            break
    assert failing > 12  # each of the files is flushed, and the folder after it
    assert PreparedText.open(folder).shards == 2


def test_a_killed_preparation_does_not_open_and_is_made_anew(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path
) -> None:
    source, folder = write("a.txt", "A gull left the old boat.\n" * 6_000), tmp_path / "prepared"
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    script = f"""
        import os, signal
        from tokenizers import Tokenizer
        from nearsay.data.pretraining import prepare
        from nearsay.data.pretraining.prepare_options import PrepareOptions
        prepare._BATCH_CHARACTERS = 2**15
        seen = []
        def stop(done, of):
            seen.append(done)
            if len(seen) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        tokenizer = Tokenizer.from_file({str(tmp_path / "tokenizer.json")!r})
        options = PrepareOptions(shard_tokens=5_000)
        prepare.prepare_text([{str(source)!r}], tokenizer, {str(folder)!r}, options, progress=stop)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(folder.glob("shard-*-tokens.npy"))) > 1
    with pytest.raises(BadInputError, match="holds no prepared text"):
        PreparedText.open(folder)
    assert prepare_text([source], tokenizer, folder).tokens == 7 * 6_000


@pytest.mark.long
def test_memory_does_not_grow_with_the_text(
    tokenizer: Tokenizer, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "_BATCH_CHARACTERS", 2**15)
    peaks = []
    for times in (1, 4):
        source = write(f"{times}.txt", "A gull left the old boat. It was late.\n" * (4_000 * times))
        options = PrepareOptions(shard_tokens=20_000)
        tracemalloc.start()
        text = prepare_text([source], tokenizer, tmp_path / f"prepared-{times}", options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert text.shards >= 2 * times
    assert peaks[1] < 1.1 * peaks[0]
