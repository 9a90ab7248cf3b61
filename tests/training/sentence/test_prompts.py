"""The prompts of an encoder, under whatever names its folder has them."""

import json
import logging
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.prompts import prompt_note, prompts_of
from nearsay.training.sentence.source import EncoderSource
from nearsay.training.sentence.text_encoder import TextKind

MakeFolder = Callable[..., Path]
TEXTS = ["the cat sat", "a dog"]


def settings(folder: Path, **changes: object) -> EncoderFolder:
    file = folder / "config_sentence_transformers.json"
    content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    file.write_text(json.dumps(content | changes), "utf-8")
    return EncoderFolder(folder)


def found(folder: Path, prompts: Mapping[str, object], default: str | None = None) -> tuple[str, str]:
    told = prompts_of(settings(folder, prompts=prompts, default_prompt_name=default))
    return told[TextKind.QUERY], told[TextKind.PASSAGE]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({}, ("", "")),
        ({"query": "q: ", "document": "d: "}, ("q: ", "d: ")),
        ({"query": "q: ", "document": "", "passage": "p: "}, ("q: ", "p: ")),
        ({"search_query": "q: ", "search_document": "d: ", "clustering": "c: "}, ("q: ", "d: ")),
        ({"retrieval.query": "q: ", "retrieval.passage": "p: ", "separation": "s: "}, ("q: ", "p: ")),
        ({"s2p_query": "q: ", "s2s_query": "s: "}, ("q: ", "")),
        ({"sts_query": "s: ", "web_search_query": "q: ", "bitext_query": "b: "}, ("q: ", "")),
        ({"Query": "q: ", "doc-prompt": "d: "}, ("q: ", "d: ")),
        ({"Retrieval-query": "q: ", "question": "q: ", "Retrieval-document": "d: "}, ("q: ", "d: ")),
        ({"first_query": "1: ", "second_query": "2: ", "corpus": "d: "}, ("", "d: ")),
        ({"classification": "c: ", "querying": "x: "}, ("", "")),
        ({"query": 3, "passage": None}, ("", "")),
    ],
)
def test_a_prompt_is_found_under_the_names_that_folders_have(
    prompts: dict[str, object], expected: tuple[str, str], tmp_path: Path
) -> None:
    assert found(tmp_path, prompts) == expected


@pytest.mark.parametrize(
    ("prompts", "default", "expected"),
    [
        ({"any": "a: "}, "any", ("a: ", "a: ")),
        ({"any": "a: ", "query": "q: "}, "any", ("q: ", "a: ")),
        ({"query": "q: "}, "query", ("q: ", "")),  # it is the queries' own
        ({"passage": "p: "}, "passage", ("", "p: ")),
        ({"any": ""}, "any", ("", "")),
        ({"query": "q: "}, "gone", ("q: ", "")),
    ],
)
def test_the_default_prompt_stands_in_for_a_kind_without_one_of_its_own(
    prompts: dict[str, object], default: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    assert found(tmp_path, prompts, default) == expected


def test_prompts_that_are_no_object_are_named(tmp_path: Path) -> None:
    with pytest.raises(NearsayError, match="not a JSON object"):
        prompts_of(settings(tmp_path, prompts=["query: "]))


@pytest.mark.parametrize("runtime", ["light", "torch"])
def test_other_names_are_used_in_encoding(runtime: str, make_folder: MakeFolder) -> None:
    plain = Encoder.load(make_folder("plain"), device="cpu", precision=Precision.FLOAT32)
    folder = make_folder("named", prompts={"search_query": "query: ", "search_document": "passage: "})
    encoder = (
        open_encoder(folder, device="cpu", precision="float32")
        if runtime == "light"
        else Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    )
    np.testing.assert_allclose(
        encoder.encode(TEXTS, kind=TextKind.QUERY), plain.encode([f"query: {t}" for t in TEXTS]), atol=1e-5
    )
    np.testing.assert_allclose(
        encoder.encode(TEXTS), plain.encode([f"passage: {t}" for t in TEXTS]), atol=1e-5
    )


def test_the_fingerprint_tells_prompts_in_use_apart_and_stays_where_the_names_are_the_usual_ones(
    make_folder: MakeFolder,
) -> None:
    folder = make_folder()
    none = encoder_fingerprint(EncoderFolder(folder))
    assert encoder_fingerprint(settings(folder, default_prompt_name=None)) == none
    named = encoder_fingerprint(settings(folder, prompts={"search_query": "q: "}))
    swapped = encoder_fingerprint(settings(folder, prompts={"any": "q: "}, default_prompt_name="any"))
    unused = encoder_fingerprint(settings(folder, prompts={"any": "q: "}, default_prompt_name=None))
    assert len({none, named, swapped, unused}) == 4


def source(folder: Path, name: str, **changes: object) -> EncoderSource:
    return EncoderSource(name, name, settings(folder, **changes))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("intfloat/e5-small-v2", "--query-prompt 'query: ' --passage-prompt 'passage: '"),
        ("intfloat/multilingual-e5-base@main", "--query-prompt 'query: '"),
        ("e5-large", "'passage: ' before each passage"),
        ("BAAI/bge-base-en", "'Represent this sentence for searching relevant passages: ' before each query"),
        ("BAAI/bge-small-zh-v1.5", "为这个句子"),
    ],
)
def test_a_family_that_wants_prompts_is_known_by_its_name(
    name: str, wanted: str, make_folder: MakeFolder
) -> None:
    folder = make_folder()
    note = prompt_note(source(folder, name, prompts={"query": "", "document": ""}))
    assert note is not None
    assert wanted in note
    assert prompt_note(source(folder, name, prompts={"query": "query: "})) is None


@pytest.mark.parametrize(
    "name",
    [
        "all-MiniLM-L6-v2",
        "BAAI/bge-m3",
        "intfloat/multilingual-e5-large-instruct",
        "me/base5-small",
        "house5-e5",
    ],
)
def test_others_get_no_note(name: str, make_folder: MakeFolder) -> None:
    assert prompt_note(source(make_folder(), name)) is None


def test_several_prompts_of_which_none_is_used_are_named(make_folder: MakeFolder) -> None:
    note = prompt_note(source(make_folder(), "mine", prompts={"first_query": "1: ", "second_query": "2: "}))
    assert note is not None
    assert "first_query ('1: ')" in note
    assert "--query-prompt" in note


@pytest.mark.parametrize("name", ["e5-small-v2", "\U0001f600/e5-small-v2"])
def test_the_note_comes_once_and_the_command_in_it_mends_the_folder(
    name: str,
    make_folder: MakeFolder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make_folder(name)
    with caplog.at_level(logging.WARNING, "nearsay"):
        light = open_encoder(folder, device="cpu", precision="float32")
        light.encode(["a dog"] * 2)
    (record,) = caplog.records
    command = shlex.split(record.getMessage().partition("python -c ")[2].partition("; or train")[0])
    exec(command[0])  # noqa: S102 - what a user is told to run
    caplog.clear()
    mended = Encoder.load("with-prompts", device="cpu", precision=Precision.FLOAT32)
    assert not caplog.records
    np.testing.assert_allclose(
        mended.encode(TEXTS, kind=TextKind.QUERY), light.encode([f"query: {t}" for t in TEXTS]), atol=1e-5
    )
    np.testing.assert_allclose(
        mended.encode(TEXTS), light.encode([f"passage: {t}" for t in TEXTS]), atol=1e-5
    )
