"""A vocabulary's folder, and what transformers makes of it."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from naming import Naming
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.training.bert.vocabulary import (
    SPECIAL_TOKENS,
    Accents,
    Vocabulary,
    VocabularyConfig,
    train_vocabulary,
)
from nearsay.training.bert.vocabulary_folder import check_vocabulary_folder, save_vocabulary
from nearsay.training.sentence.source import find_encoder, lineage_of

TEXTS = [
    "Zoë's café sold 12 naïve owls — 東京, İzmir…",
    "The owls sold the café; e\u0301te\u0301 came. ÜBER-owls",
] * 2
FILES = {"tokenizer.json", "vocab.txt", "tokenizer_config.json", "lineage.json", "vocabulary.json"}


def make(**options: object) -> Vocabulary:
    return train_vocabulary(TEXTS, VocabularyConfig(size=400, **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return make()


@pytest.mark.parametrize("cased", [False, True])
@pytest.mark.parametrize("accents", list(Accents))
@pytest.mark.parametrize("special", [(), ("<num>", "[ENT]")])
def test_plain_transformers_gives_the_numbers_that_tokenizers_gives(
    tmp_path: Path, cased: bool, accents: Accents, special: tuple[str, ...]
) -> None:
    vocabulary = make(cased=cased, accents=accents, special=special, unused=2)
    save_vocabulary(vocabulary, tmp_path / "mine")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "mine")
    plain = Tokenizer.from_file(str(tmp_path / "mine" / "tokenizer.json"))
    for text in [*TEXTS, "", "Owl [MASK] <num>é [ENT] [unused1] 🙂 zzz"]:
        assert loaded(text)["input_ids"] == plain.encode(text).ids == vocabulary.tokenizer.encode(text).ids
        pair = loaded(text, "the owls")
        assert pair["token_type_ids"] == plain.encode(text, "the owls").type_ids
        assert pair["input_ids"] == plain.encode(text, "the owls").ids
    assert loaded.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [0, 1, 2, 3, 4]
    assert [loaded.pad_token_id, loaded.unk_token_id, loaded.cls_token_id] == [0, 1, 2]
    assert [loaded.sep_token_id, loaded.mask_token_id, loaded.model_max_length] == [3, 4, 512]
    assert set(loaded.all_special_tokens) == {*SPECIAL_TOKENS, *special}
    assert type(loaded).__name__.startswith("BertTokenizer")
    assert len(loaded) == vocabulary.size


def test_what_transformers_saves_again_gives_the_same_numbers(vocabulary: Vocabulary, tmp_path: Path) -> None:
    save_vocabulary(vocabulary, tmp_path / "mine")
    AutoTokenizer.from_pretrained(tmp_path / "mine").save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [again(text)["input_ids"] for text in TEXTS] == [
        vocabulary.tokenizer.encode(text).ids for text in TEXTS
    ]


def test_the_pieces_stand_in_vocab_txt_in_the_order_of_their_numbers(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    save_vocabulary(vocabulary, tmp_path / "mine")
    assert (tmp_path / "mine" / "vocab.txt").read_text("utf-8").split("\n") == [*vocabulary.pieces, ""]


def test_the_report_and_the_lineage_say_how_it_was_made(tmp_path: Path) -> None:
    vocabulary = make(cased=True, special=("<num>",))
    save_vocabulary(vocabulary, tmp_path / "mine", sources=["owls.txt"])
    assert {path.name for path in (tmp_path / "mine").iterdir()} == FILES
    report = json.loads((tmp_path / "mine" / "vocabulary.json").read_text("utf-8"))
    assert report["size"] == vocabulary.size
    assert report["sources"] == ["owls.txt"]
    assert report["options"]["cased"] is True
    assert report["options"]["special"] == ["<num>"]
    assert report["counts"]["texts"] == 4
    assert report["counts"]["sha256"] == vocabulary.counts.sha256
    assert report["notes"] == list(vocabulary.notes) != []
    steps = lineage_of(find_encoder(tmp_path / "mine"))
    assert len(steps) == 2
    assert steps[0] == Naming("WordPiece", vocabulary.size, "cased", "4 texts")
    assert vocabulary.counts.sha256 in steps[0]


_MAKE = """
import json, sys
from pathlib import Path
from nearsay.data import samples
from nearsay.data.reading import read
from nearsay.training.bert.vocabulary import VocabularyConfig, train_vocabulary
from nearsay.training.bert.vocabulary_folder import save_vocabulary
texts = read([samples.folder() / "corpus.jsonl"]).texts()
save_vocabulary(train_vocabulary(texts, VocabularyConfig(size=3000)), sys.argv[1])
"""


@pytest.mark.long
def test_other_hash_seeds_and_threads_give_the_same_bytes(tmp_path: Path) -> None:
    settings = [
        {"PYTHONHASHSEED": "1", "TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": "4"},
        {"PYTHONHASHSEED": "2", "TOKENIZERS_PARALLELISM": "false"},
        {"PYTHONHASHSEED": "3", "TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": "1"},
    ]
    for number, variables in enumerate(settings):
        command = [sys.executable, "-c", _MAKE, str(tmp_path / str(number))]
        subprocess.run(command, env=os.environ | variables, check=True)
    first = {name: (tmp_path / "0" / name).read_bytes() for name in FILES}
    assert first["vocab.txt"].count(b"\n") == 3000
    for number in (1, 2):
        assert {name: (tmp_path / str(number) / name).read_bytes() for name in FILES} == first


def test_a_folder_that_holds_a_vocabulary_is_replaced_only_when_that_is_asked(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    save_vocabulary(make(cased=True), tmp_path / "mine")
    before = (tmp_path / "mine" / "vocab.txt").read_bytes()
    with pytest.raises(NearsayError, match=r"already.*--replace"):
        save_vocabulary(vocabulary, tmp_path / "mine")
    assert (tmp_path / "mine" / "vocab.txt").read_bytes() == before
    save_vocabulary(vocabulary, tmp_path / "mine", replace=True)
    assert (tmp_path / "mine" / "vocab.txt").read_text("utf-8").split() == vocabulary.pieces
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_with_anything_else_in_it_is_never_replaced(vocabulary: Vocabulary, tmp_path: Path) -> None:
    save_vocabulary(vocabulary, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").touch()
    with pytest.raises(NearsayError, match=r"something else .*\(model\.safetensors\)"):
        save_vocabulary(vocabulary, tmp_path / "model", replace=True)
    save_vocabulary(vocabulary, tmp_path / "strange")
    (tmp_path / "strange" / "vocabulary.json").unlink()
    with pytest.raises(NearsayError, match=r"made here \(no vocabulary.json\)"):
        check_vocabulary_folder(tmp_path / "strange", replace=True)


def test_an_empty_folder_and_one_whose_parents_are_missing_are_taken(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    save_vocabulary(vocabulary, tmp_path / "empty")
    save_vocabulary(vocabulary, tmp_path / "a" / "b" / "c")
    assert {path.name for path in (tmp_path / "a" / "b" / "c").iterdir()} == FILES
    assert {path.name for path in (tmp_path / "empty").iterdir()} == FILES


def test_a_file_is_no_place_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NearsayError, match="is a file"):
        check_vocabulary_folder(tmp_path / "file")
    with pytest.raises(NearsayError, match="nothing may be written in"):
        check_vocabulary_folder(tmp_path / "file" / "below")


def test_a_place_that_may_not_be_written_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)  # root may write anywhere
    with pytest.raises(NearsayError, match=f"nothing may be written in {tmp_path}"):
        check_vocabulary_folder(tmp_path / "new" / "mine")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_full_disk_leaves_what_was_there_and_nothing_half_written(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    if replaced:
        save_vocabulary(make(cased=True), tmp_path / "mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    written: list[int] = []

    def write_two(self: Path, text: str, **options: object) -> int:
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(self.write_bytes(text.encode()))
        return written[-1]

    monkeypatch.setattr(Path, "write_text", write_two)
    with pytest.raises(DiskFullError, match=r"no room .*mine"):
        save_vocabulary(vocabulary, tmp_path / "mine", replace=True)
    assert len(written) == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_replaced_vocabulary_comes_back_when_the_new_one_cannot_take_its_place(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_vocabulary(make(cased=True), tmp_path / "mine")
    before = (tmp_path / "mine" / "vocab.txt").read_bytes()
    rename, renamed = Path.rename, []

    def rename_once(self: Path, target: Path) -> Path:
        renamed.append(target)
        if len(renamed) == 2:  # the old one is aside, the new one would come
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_once)
    with pytest.raises(NearsayError, match="mine cannot be written"):
        save_vocabulary(vocabulary, tmp_path / "mine", replace=True)
    assert (tmp_path / "mine" / "vocab.txt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_to_a_folder_stays_a_link(vocabulary: Vocabulary, tmp_path: Path) -> None:
    save_vocabulary(vocabulary, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_vocabulary(make(cased=True), tmp_path / "link", replace=True)
    assert (tmp_path / "link").is_symlink()
    assert b"Z" in (tmp_path / "real" / "vocab.txt").read_bytes()
    shutil.rmtree(tmp_path / "real")
