"""Recipes: read from TOML, refused with the setting's name, and run with one seed or several."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.mixing import Sampling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import run_folder
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe, read_recipe
from nearsay.training.sentence.fine_tuning.run_recipe import read_set, run_recipe, spread_of
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling, SentenceTraining
from nearsay.training.sentence.objectives.table import ObjectiveKind

WHOLE = """
base = "my-base"
epochs = 2
batch = 16
learning_rate = 1e-4
sampling = "round-robin"
precision = "float32"
dev = "sts:dev.tsv"
evaluate = ["sts:test.tsv", "beir"]
seeds = 3

[structure]
pooling = "cls"
normalise = true

[[set]]
file = "pairs.tsv"
objective = { kind = "ranking", scale = 30, symmetric = true }
batch = 64
rows = 100

[[set]]
file = "scores.tsv"
objective = "angle"
kind = "scored"
columns = ["left", "right"]
label = "points"
where = { split = "train" }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_recipe_says_everything_and_its_files_are_beside_it(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, WHOLE))
    assert recipe.base == "my-base"  # no folder of that name: a name
    assert recipe.structure.pooling is SentencePooling.CLS
    assert recipe.training.sampling is Sampling.ROUND_ROBIN
    assert recipe.training.precision is Precision.FLOAT32
    assert (recipe.training.epochs, recipe.training.batch, recipe.seeds) == (2, 16, 3)
    assert recipe.dev == f"sts:{tmp_path / 'dev.tsv'}"
    assert recipe.evaluate == (f"sts:{tmp_path / 'test.tsv'}", str(tmp_path / "beir"))
    first, second = recipe.sets
    assert first.file == str(tmp_path / "pairs.tsv")
    assert first.objective is not None
    assert (first.objective.kind, first.objective.scale) == (ObjectiveKind.RANKING, 30)
    assert (first.batch, first.rows) == (64, 100)
    assert second.kind is ExampleKind.SCORED
    assert second.columns == ("left", "right")
    assert (second.label, second.where) == ("points", {"split": "train"})


def test_a_colon_in_a_file_name_is_no_kind(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, 'dev = "sts:a:b.tsv"\nevaluate = ["a:b.tsv"]'))
    assert recipe.dev == f"sts:{tmp_path / 'a:b.tsv'}"
    assert recipe.evaluate == (str(tmp_path / "a:b.tsv"),)


def test_a_recipe_may_begin_with_the_mark_of_windows(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, "\ufeffepochs = 2")).training.epochs == 2


def test_a_base_beside_the_recipe_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "my-base").mkdir()
    assert read_recipe(written(tmp_path, 'base = "my-base"')).base == str(tmp_path / "my-base")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch = 1", "'epoch'.*epochs"),
        ("epochs = ", "is not TOML"),
        ("[[set]]\nobjective = 'cosent'", "set 1 .*file = "),
        ("[[set]]\nfile = 'a'\nobjectiv = 'cosent'", "set 1: .*'objectiv'"),
        ("[[set]]\nfile = 'a'\nobjective = 'cosine-ish'", "there is no objective 'cosine-ish'"),
        ("[[set]]\nfile = 'a'\nobjective = { kind = 'cosent', scale = -1 }", "the scale is -1"),
        ("[[set]]\nfile = 'a'\nobjective = 3", "objective is 3"),
        ("[[set]]\nfile = 'a'\nkind = 'scores'", "Take one of: nli"),
        ("[[set]]\nfile = 'a'\nrows = 0", "rows of"),
        ("set = 3", "Begin each set with"),
        ("[structure]\npooling = 'median'", "Take one of: cls"),
        ("[structure]\npool = 'mean'", "there is no setting 'pool'"),
        ("structure = 3", "no table"),
        ("sampling = 'often'", "Take one of: proportional"),
        ("epochs = 'two'", "epochs is 'two'. Give a number"),
        ("seeds = 1.5", "Give a whole number"),
        ("seeds = 0", "seeds is 0"),
        ("seed = 99999999999999999999", "seed is 99999999999999999999. Give a number nearer to 0"),
        ("epochs = 1e308", r"epochs is 1e\+308. Give a number nearer to 0"),
        ("base = 3", "base is 3. Give a text"),
        ("[[set]]\nfile = 'a'\nrows = '5'", "rows is '5'. Give a whole number"),
        ("[[set]]\nfile = 'a'\nbatch = 0", "batch of"),
        ("dev = 3", "dev is 3. Give a text"),
        ("evaluate = [3]", "evaluate is 3. Give a text"),
        ("sampling = []", "sampling is \\[\\]. Take one of"),
        ("lora_targets = 3", "lora_targets is 3. Give a text"),
        ("exact_resume = 'no'", "exact_resume is 'no'. Give true or false"),
        ("[structure]\nnormalise = 'no'", "normalise is 'no'. Give true or false"),
        ("[structure]\nlength = 30.5", "length is 30.5. Give a whole number"),
        ("[structure]\nquery_prompt = 3", "query_prompt is 3. Give a text"),
        ("[[set]]\nfile = 3", "file is 3. Give a text"),
        ("[[set]]\nfile = 'a'\nlabel = 3", "label is 3. Give a text"),
        ("[[set]]\nfile = 'a'\nwhere = 'split=train'", "where is 'split=train', no table"),
        ("[[set]]\nfile = 'a'\nwhere = { split = 1 }", "where, split is 1. Give a text"),
        ("[[set]]\nfile = 'a'\nsettings = 3", "settings is 3, no table"),
        ("[[set]]\nfile = 'a'\nobjective = 'ranking'\nsettings = { scale = 3 }", "Write them together"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=said):
        read_recipe(written(tmp_path, text))


def test_a_recipe_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="Name a recipe file"):
        read_recipe(tmp_path / "none.toml")


def pairs_file(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    rows = [
        f"{score}\tthe {a} sat {x}\t{x} {b}"
        for a, b, score in (("cat", "cat", 5), ("cat", "dog", 0), ("dog", "dog", 5), ("dog", "cat", 1))
        for x in ("x", "y", "z", "a b")
    ]
    path.write_text("score\tsentence1\tsentence2\n" + "\n".join(rows) + "\n", "utf-8")
    return path


def test_rows_are_drawn_by_the_seed(tmp_path: Path) -> None:
    one = SetRecipe(str(pairs_file(tmp_path)), rows=5)
    first, again, other = (read_set(one, seed, lambda _: None).examples for seed in (1, 1, 2))
    assert len(first) == 5
    assert first == again
    assert first.texts != other.texts


def test_a_judged_corpus_gives_its_judgements_or_its_titles(tmp_path: Path) -> None:
    documents = [{"_id": f"d{n}", "title": f"title {n}", "text": f"text {n}"} for n in range(3)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents), "utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "what"}\n', "utf-8")
    (tmp_path / "qrels_train.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n", "utf-8")
    judged = read_set(SetRecipe(str(tmp_path)), 0, lambda _: None)
    assert judged.examples.texts == (("what", "title 1 text 1"),)
    titles = read_set(SetRecipe(str(tmp_path), split=""), 0, lambda _: None)
    assert titles.examples.texts[0] == ("title 0", "text 0")
    assert titles.objective.kind is ObjectiveKind.RANKING


def recipe(folder: Path, base: Path, **changes: object) -> Recipe:
    training = SentenceTraining(steps=2, batch=8, learning_rate=1e-3, precision=Precision.FLOAT32)
    values: dict[str, object] = {
        "sets": (SetRecipe(str(pairs_file(folder))),),
        "base": str(base),
        "training": training,
        "evaluate": (f"sts:{pairs_file(folder)}",),
        "seeds": 2,
    }
    return Recipe(**(values | changes))  # type: ignore[arg-type]  # the values are of the fields' types


@pytest.mark.long
def test_several_seeds_are_several_encoders_with_a_mean_and_a_deviation(
    tmp_path: Path, tiny_folder: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    wanted = recipe(data, tiny_folder, evaluate=(f"triplets:{triplets_file(data)}",))
    first, second = run_recipe(wanted, tmp_path / "out", device="cpu")
    assert (first.seed, second.seed) == (0, 1)
    assert (first.folder / "model.safetensors").read_bytes() != (
        second.folder / "model.safetensors"
    ).read_bytes()
    (spread,) = spread_of([first, second])
    figures = [*first.figures.values(), *second.figures.values()]
    assert spread.mean == pytest.approx(sum(figures) / 2)
    assert spread.standard_deviation == pytest.approx(abs(figures[0] - figures[1]) / 2**0.5)


def triplets_file(folder: Path) -> Path:
    path = folder / "triplets.tsv"
    rows = [f"{a} {x}\t{x} the {a}\tthe {b}" for a, b in (("cat", "dog"), ("dog", "cat")) for x in "abcde"]
    path.write_text("anchor\tpositive\tnegative\n" + "\n".join(rows) + "\n", "utf-8")
    return path


@pytest.mark.long
def test_seeds_that_are_there_are_not_trained_again(tmp_path: Path, tiny_folder: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    wanted = recipe(data, tiny_folder, evaluate=(f"triplets:{triplets_file(data)}",))
    said: list[str] = []
    stopping = Watch(report=said.append, stop=lambda: "seed 1" in said)
    results = run_recipe(wanted, tmp_path / "out", device="cpu", watch=stopping)
    assert [one.result.finished for one in results if one.result] == [True, False]
    first, second = run_recipe(wanted, tmp_path / "out", device="cpu", watch=Watch(report=said.append))
    assert "seed 0 is there" in said
    assert first.result is None
    assert first.figures == results[0].figures
    assert second.result is not None
    with pytest.raises(BadInputError, match="trained with other settings"):
        run_recipe(recipe(data, tiny_folder), tmp_path / "out", device="cpu")


@pytest.mark.long
def test_a_seed_that_was_killed_while_its_files_were_moved_is_finished(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    wanted = recipe(data, tiny_folder, evaluate=(f"triplets:{triplets_file(data)}",))

    def kill(folder: Path) -> None:
        if (folder / "modules.json").is_file():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "synchronise", kill)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(wanted, out, device="cpu")
    assert not (out / "seed-0" / "config.json").exists()
    assert len(run_recipe(wanted, out, device="cpu")) == 2
    assert (out / "seed-0" / "config.json").is_file()


@pytest.mark.long
def test_seeds_that_never_came_to_a_checkpoint_hold_nobody_to_their_settings(
    tmp_path: Path, tiny_folder: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    wanted = recipe(data, tiny_folder, evaluate=())

    def kill(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_recipe(wanted, tmp_path / "out", device="cpu", watch=Watch(listener=kill))
    smaller = replace(wanted, training=replace(wanted.training, batch=4))
    results = run_recipe(smaller, tmp_path / "out", device="cpu")
    assert [one.result.finished for one in results if one.result] == [True, True]
    with pytest.raises(BadInputError, match="trained with other settings"):
        run_recipe(wanted, tmp_path / "out", device="cpu")


@pytest.mark.long
def test_seeds_of_another_base_under_the_same_name_are_refused(
    tmp_path: Path, make_folder: Callable[..., Path]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    out = tmp_path / "out"
    wanted = recipe(data, make_folder("base", seed=1), evaluate=())
    run_recipe(wanted, out, device="cpu", watch=Watch(stop=lambda: True))
    make_folder("base", seed=2)
    with pytest.raises(BadInputError, match="trained with other settings"):
        run_recipe(wanted, out, device="cpu")
    # Seeds of the first version recorded the base's name alone.
    told = json.loads((out / "seeds.json").read_text("utf-8"))
    assert "query_prompt" not in told["structure"]  # nor did they record prompts
    del told["base_sha256"]
    (out / "seeds.json").write_text(json.dumps(told), "utf-8")
    make_folder("base", seed=1)
    assert all(one.result and one.result.finished for one in run_recipe(wanted, out, device="cpu"))


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_folder_that_cannot_be_trained_in_is_refused_before_a_file_is_read(
    seeds: int, tmp_path: Path
) -> None:
    (tmp_path / "out").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    for name, said in (("out", "is a file"), ("full", "exists and contains")):
        with pytest.raises(BadInputError) as raised:
            run_recipe(Recipe(sets=(SetRecipe("there is none.tsv"),), seeds=seeds), tmp_path / name)
        assert str(raised.value) == Naming(tmp_path / name, said)


def test_all_of_torchruns_processes_refuse_a_finished_folder_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waited for the first, which is gone, would not hear torchrun's SIGTERM until it is killed."""
    monkeypatch.setenv("RANK", "1")
    for name in ("config.json", "run/config.json"):
        place = tmp_path / "out" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
    with pytest.raises(BadInputError, match="finished run"):
        run_recipe(Recipe(sets=(SetRecipe("there is none.tsv"),)), tmp_path / "out")


def test_nothing_to_train_on_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is nothing to train on"):
        run_recipe(Recipe(), tmp_path / "out")


@pytest.mark.long
def test_a_training_on_a_file_resumes_exactly_and_leaves_no_texts_on_the_disk(
    tiny_folder: Path, tmp_path: Path
) -> None:
    """Rows that share texts, a bad one, two prompts and a part that is drawn: all that goes by number."""
    places = ("the mat", "a mat", "x y", "z", "b c")
    rows = [f"{query} {place}\t{place} sat {query}" for query in ("cat", "dog", "mat") for place in places]
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(["query\tpassage", *rows, "cat the mat\tthe dog", "alone\t", rows[0]]), "utf-8")
    one = SetRecipe(str(file), rows=12)
    training = SentenceTraining(epochs=3, batch=4, precision=Precision.FLOAT32, learning_rate=1e-3)
    prompts = EncoderStructure(query_prompt="query: ", passage_prompt="passage: ")
    recipe = Recipe((one,), base=str(tiny_folder), structure=prompts, training=training)
    said: list[str] = []

    def trained(name: str, stops: list[bool]) -> bool:
        asked = iter([*stops, *[False] * 100])
        watch = Watch(report=said.append, stop=lambda: next(asked))
        (found,) = run_recipe(recipe, tmp_path / "runs" / name, device="cpu", watch=watch)
        return found.result is not None and found.result.finished

    assert trained("whole", [])
    assert any("pairs.tsv:18: passage is empty" in note for note in said)
    assert any("1 exact duplicate left out" in note for note in said)
    assert not trained("parts", [False, True])
    assert not trained("parts", [False, False, True])
    assert trained("parts", [])
    whole, parts = (tmp_path / "runs" / name for name in ("whole", "parts"))
    assert losses(whole) == losses(parts)
    assert len(losses(whole)) == 9
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.tsv", "runs"}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"whole", "parts"}


def losses(out: Path) -> list[float]:
    return [float(line["loss"]) for line in read_metrics(out / "run" / "metrics.jsonl") if "loss" in line]
