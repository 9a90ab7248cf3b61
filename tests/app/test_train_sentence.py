"""Sentence encoders trained from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main
from nearsay.training.encoder.hardware import Precision, Processor, resolve_precision

pytestmark = pytest.mark.usefixtures("short_runs")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran", "on", "mat", "now"]
ROWS = [
    f"{5 if a == b else 0}\tthe {a} {verb}\t{b} {verb} {where}"
    for a in ("cat", "dog")
    for b in ("cat", "dog")
    for verb in ("sat", "ran")
    for where in ("now", "on the mat", "the")
]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, save_bert: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("berts") / "small"
    return save_bert(folder, WORDS, hidden_size=16, max_position_embeddings=32, initializer_range=0.3)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(["score\tsentence1\tsentence2", *ROWS]) + "\n", "utf-8")
    return path


@pytest.fixture
def run(bert: Path, tmp_path: Path) -> Run:
    def run_it(*arguments: object, code: int = 0) -> Result:
        given = [str(argument) for argument in arguments]
        if "--recipe" not in given:
            given += ["--base", str(bert), "--device", "cpu", "--precision", "float32"]
        result = CliRunner().invoke(main, ["train", "sentence", *given])
        assert result.exit_code == code, result.output
        return result

    return run_it


@pytest.mark.long
def test_it_trains_measures_before_and_after_and_can_be_evaluated(
    pairs: Path, tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "mine"
    test = tmp_path / "test.tsv"
    test.write_text(
        "score\tsentence1\tsentence2\n5\tcat sat\tcat\n0\tcat ran\tdog\n1\tdog now\tthe cat\n", "utf-8"
    )
    result = run(
        pairs, "--dev", f"sts:{test}", "--evaluate", f"sts:{test}", "--epochs", 2, "--batch", 8,
        "--learning-rate", 1e-3, "--pooling", "mean", "--normalise", "--out", out,
    )  # fmt: skip
    assert "kind = scored" in result.stderr
    header = next(line for line in result.stdout.splitlines() if line.startswith("set "))
    assert header.split()[:5] == ["set", "figure", "items", "before", "after"]
    measured = CliRunner().invoke(main, ["evaluate", "sts", str(test), "--encoder", str(out), "--json"])
    assert measured.exit_code == 0, measured.output
    told = json.loads((out / "run" / "result.json").read_text("utf-8"))
    after = told["evaluations"][0]["after"]
    assert json.loads(measured.stdout)["spearman"] == pytest.approx(after, abs=0.01)


@pytest.mark.long
def test_json_tells_everything_in_a_line_each(pairs: Path, tmp_path: Path, run: Run) -> None:
    result = run(
        pairs, "--evaluate", f"sts:{pairs}", "--steps", 2, "--batch", 8, "--seeds", 2,
        "--out", tmp_path / "two", "--json", "--objective", "angle", "--scale", 10, code=1,
    )  # fmt: skip
    assert result.stderr == Naming("every row", "evaluation")
    other = tmp_path / "other.tsv"
    other.write_text("score\tsentence1\tsentence2\n5\tmat\tthe mat\n0\tcat\tdog\n2\tran\tsat\n", "utf-8")
    result = run(
        pairs, "--evaluate", f"sts:{other}", "--steps", 2, "--batch", 8, "--seeds", 2,
        "--out", tmp_path / "two", "--json", "--objective", "angle", "--scale", 10,
    )  # fmt: skip
    first, second, both = [json.loads(line) for line in result.stdout.splitlines()]
    assert (first["seed"], second["seed"], both["seeds"]) == (0, 1, 2)
    assert first["steps"] == 2
    assert first["evaluations"][0]["figure"] == "spearman"
    config = json.loads((tmp_path / "two" / "seed-1" / "run" / "config.json").read_text("utf-8"))
    assert config["sets"][0]["objective"] == {"kind": "angle", "scale": 10.0}


@pytest.mark.long
def test_the_ranking_by_meaning_and_words_is_distilled_into_an_encoder(
    tmp_path: Path, save_bert: Callable[..., Path]
) -> None:
    """What `search -f` prints is trained on as it is: the passages with the hybrid ranking's scores."""

    def printed(*arguments: object) -> str:
        done = CliRunner().invoke(main, [str(one) for one in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    names = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
    bert = save_bert(tmp_path / "bert", [*WORDS, *names], hidden_size=32, max_position_embeddings=32)
    rows = [{"id": name, "text": f"the cat sat on the mat {name} now"} for name in names]
    texts, queries, rankings = (tmp_path / name for name in ("t.jsonl", "q.txt", "rankings.jsonl"))
    texts.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    queries.write_text("cat fjord\ndog amber birch\nsat heath\nran cedar\n", "utf-8")
    place = ("--library", tmp_path / "library", "--device", "cpu")
    printed("documents", "add", "trees", texts, "--encoder", bert, *place)
    rankings.write_text(printed("search", "trees", "-f", queries, "-n", 6, *place), "utf-8")
    answers = [json.loads(line)["hits"] for line in rankings.read_text("utf-8").splitlines()]
    scores = [hit["scores"] for hits in answers for hit in hits]
    assert any(each["fused"] > each["dense"] for each in scores)  # words count, too
    out = tmp_path / "out"
    how = ("--epochs", 250, "--batch", 4, "--learning-rate", 5e-3, "--precision", "float32")
    base = ("--base", bert, "--device", "cpu")
    printed("train", "sentence", rankings, "--objective", "kl", "--out", out, *base, *how)
    learned = json.loads((out / "run" / "config.json").read_text("utf-8"))["sets"][0]
    assert (learned["kind"], learned["rows"], learned["guide"]) == ("tuples", 4, None)
    lines = (out / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
    losses = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
    assert losses[-1] < losses[0] / 2


@pytest.mark.long
def test_a_recipe_runs_and_options_go_before_it(pairs: Path, bert: Path, tmp_path: Path, run: Run) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'base = "{bert}"\nsteps = 5\nbatch = 4\n[[set]]\nfile = "{pairs.name}"\nobjective = "cosine"\n',
        "utf-8",
    )
    run("--recipe", recipe, "--steps", 1, "--device", "cpu", "--out", tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "run" / "config.json").read_text("utf-8"))
    assert (config["steps"], config["batch"]) == (1, 4)
    assert config["sets"][0]["objective"]["kind"] == "cosine"


def test_prompts_of_the_recipe_and_the_command_are_the_trained_folders(
    pairs: Path, bert: Path, tmp_path: Path, run: Run
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'base = "{bert}"\nsteps = 1\n[structure]\nquery_prompt = "query: "\npassage_prompt = "text: "\n'
        f'[[set]]\nfile = "{pairs.name}"\n',
        "utf-8",
    )
    out = tmp_path / "mine"
    run("--recipe", recipe, "--passage-prompt", "passage: ", "--device", "cpu", "--out", out)
    structure = json.loads((out / "run" / "config.json").read_text("utf-8"))["structure"]
    assert (structure["query_prompt"], structure["passage_prompt"]) == ("query: ", "passage: ")
    settings = json.loads((out / "config_sentence_transformers.json").read_text("utf-8"))
    assert settings["prompts"] == {"query": "query: ", "document": "passage: "}


def test_a_revision_of_the_base_is_fetched_and_stands_in_the_run(
    pairs: Path, bert: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot(repository: str, *, revision: str | None, **_: object) -> str:
        assert (repository, revision) == ("owner/name", "v1.2")
        return str(bert)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'base = "owner/name"\nsteps = 1\n[[set]]\nfile = "{pairs.name}"\n', "utf-8")
    out = tmp_path / "mine"
    run("--recipe", recipe, "--revision", "v1.2", "--device", "cpu", "--out", out)
    assert json.loads((out / "run" / "config.json").read_text("utf-8"))["base"] == "owner/name@v1.2"
    result = run(pairs, "--revision", "v1.2", "--steps", 1, "--out", tmp_path / "folder", code=1)
    assert "is a folder" in result.stderr


@pytest.mark.parametrize("length", ["steps = 500", "minutes = 90.0"])
def test_one_length_of_training_on_the_command_line_takes_the_place_of_another_in_the_recipe(
    length: str, pairs: Path, bert: Path, tmp_path: Path, run: Run
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'base = "{bert}"\nbatch = 8\n{length}\n[[set]]\nfile = "{pairs.name}"\n', "utf-8")
    run("--recipe", recipe, "--epochs", 1, "--device", "cpu", "--out", tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "run" / "config.json").read_text("utf-8"))
    assert config["epochs"] == 1
    assert not {"steps", "minutes"} & set(config)


def test_a_kind_that_there_is_not_is_refused_with_those_there_are(
    pairs: Path, tmp_path: Path, run: Run
) -> None:
    result = run(pairs, "--kind", "score", "--out", tmp_path / "mine", code=2)
    assert "'texts'" in result.stderr
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is nothing to train on"),
        (["--margin", "3"], "no use for margin"),
        (["--steps", "3", "--epochs", "1"], "--epochs and --steps both limit the training"),
        (["--objective", "ranking", "--matryoshka", "16,x"], "Give whole numbers"),
        (["--objective", "triplet"], "For scored take one of"),
        (["--seeds", "0"], "seeds is 0"),
        (["--objective", "ranking", "--scale", "0"], "the scale is 0"),
    ],
)
def test_a_mistake_is_one_clear_sentence(
    arguments: list[str], said: str, pairs: Path, tmp_path: Path, run: Run
) -> None:
    files = [] if not arguments else [pairs]
    result = run(*files, *arguments, "--out", tmp_path / "mine", code=1)
    assert said in result.stderr
    assert not (tmp_path / "mine").exists()


def test_a_remedy_for_a_binary_file_is_none_of_another_command(tmp_path: Path, run: Run) -> None:
    (tmp_path / "binary.tsv").write_bytes(b"a\0b\tc\n\0\td\n")
    refused = run(tmp_path / "binary.tsv", "--out", tmp_path / "mine", code=1)
    assert "holds a NUL character" in refused.stderr
    assert "--input-format" not in refused.stderr


def test_a_single_score_is_refused_where_pairs_are_ranked(tmp_path: Path, run: Run) -> None:
    (tmp_path / "one.tsv").write_text("score\tsentence1\tsentence2\n3\tthe cat\ta dog\n", "utf-8")
    refused = run(tmp_path / "one.tsv", "--out", tmp_path / "mine", code=1)
    assert "only label" in refused.stderr
    assert "cosent learns from their differences" in refused.stderr


def test_a_margin_of_nothing_is_no_margin(pairs: Path, tmp_path: Path, run: Run) -> None:
    triplets = tmp_path / "triplets.tsv"
    triplets.write_text("anchor\tpositive\tnegative\nthe cat\tcat\tdog\nthe dog\tdog\tcat\n", "utf-8")
    run(triplets, "--objective", "triplet", "--margin", 0, "--steps", 1, "--out", tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "run" / "config.json").read_text("utf-8"))
    assert config["sets"][0]["objective"] == {"kind": "triplet", "margin": 0.0}


@pytest.mark.parametrize(
    "option", [["--sample", "5"], ["--objective", "softmax"], ["--symmetric"], ["--margin", "0"]]
)
def test_options_about_files_without_a_file_are_refused(option: list[str], tmp_path: Path, run: Run) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[[set]]\nfile = "pairs.tsv"\n', "utf-8")
    result = run("--recipe", recipe, *option, "--out", tmp_path / "mine", code=1)
    assert result.stderr == Naming(option[0], "files", "command")


FASTEST = resolve_precision(Precision.AUTO, "cpu", Processor.detect())


@pytest.mark.parametrize(("given", "used"), [([], "float32"), (["--precision", "auto"], str(FASTEST))])
def test_a_recipe_says_the_precision_unless_the_command_does(
    given: list[str], used: str, pairs: Path, bert: Path, tmp_path: Path, run: Run
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'base = "{bert}"\nsteps = 1\nprecision = "float32"\n[[set]]\nfile = "{pairs.name}"\n', "utf-8"
    )
    run("--recipe", recipe, *given, "--device", "cpu", "--out", tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "run" / "config.json").read_text("utf-8"))
    assert config["environment"]["precision"] == used
    assert "precision" not in config  # what was asked for says less
    assert f"| precision | {used} |" in (tmp_path / "mine" / "README.md").read_text("utf-8")
