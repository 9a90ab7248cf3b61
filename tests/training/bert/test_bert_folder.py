"""Saved BERTs: found, checked, and loaded strictly."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertModel, BertTokenizer, PreTrainedModel

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.bert.bert_folder import load_bert, load_model
from nearsay.training.sentence.bundled import BUNDLED_NAME, BUNDLED_WEIGHTS_SHA256
from nearsay.training.sentence.refusal import EncoderRefusedError
from nearsay.training.sentence.source import find_bert

MakeFolder = Callable[..., Path]
Save = Callable[..., Path]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat"]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
}


@pytest.fixture
def save(tmp_path: Path, save_bert: Callable[..., Path]) -> Save:
    """Saves a model of transformers' with a vocabulary, as transformers does."""

    def save_it(
        model_class: type[PreTrainedModel] = BertModel, name: str = "mine", **settings: object
    ) -> Path:
        return save_bert(tmp_path / name, WORDS, kind=model_class, **(SIZES | settings))

    return save_it


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_the_bundled_encoder_is_a_bert() -> None:
    bert = load_bert()
    assert (bert.name, bert.source) == (BUNDLED_NAME, BUNDLED_NAME)
    assert bert.weights_sha256 == BUNDLED_WEIGHTS_SHA256
    assert (bert.config.num_hidden_layers, bert.config.hidden_size) == (6, 384)
    assert (bert.max_tokens, bert.positions) == (256, 512)
    assert bert.lineage[0].startswith("sentence-transformers/")
    assert bert.tokenizer.get_vocab_size() == 30522


def test_a_sentence_transformers_folder_may_keep_its_bert_in_a_folder_of_its_own(
    make_folder: MakeFolder,
) -> None:
    folder = make_folder()
    inner = folder / "0_Transformer"
    inner.mkdir()
    for file in [*folder.glob("*.safetensors"), *folder.glob("token*"), *folder.glob("vocab*")]:
        file.rename(inner / file.name)
    for name in ("config.json", "sentence_bert_config.json"):
        (folder / name).rename(inner / name)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    bert = load_bert(folder)
    assert (bert.path, bert.folder.path) == (inner, folder)
    assert (bert.max_tokens, bert.positions) == (16, 64)
    assert load_model(bert, BertModel).config.hidden_size == 32


@pytest.mark.parametrize(
    "saved",
    [
        transformers.BertModel,
        transformers.BertForPreTraining,
        transformers.BertForMaskedLM,
        transformers.BertForSequenceClassification,
        transformers.BertForTokenClassification,
        transformers.BertForQuestionAnswering,
    ],
)
def test_the_same_layers_come_out_of_every_kind_of_bert_folder(
    saved: type[PreTrainedModel], save: Save
) -> None:
    folder = save(saved)
    bert = load_bert(str(folder))
    assert (bert.name, bert.source, bert.lineage) == ("mine", str(folder), (str(folder),))
    model = load_model(bert, BertModel, fresh=("pooler",))
    assert not model.training
    stored = load_file(folder / "model.safetensors")
    for name, value in model.named_parameters():
        if "pooler" not in name:
            assert torch.equal(value, stored[name if name in stored else f"bert.{name}"])


def test_a_head_that_is_there_is_loaded_and_one_that_is_not_must_be_named(save: Save) -> None:
    folder = save(transformers.BertForPreTraining)
    whole = load_model(load_bert(folder), transformers.BertForPreTraining)
    stored = load_file(folder / "model.safetensors")
    assert torch.equal(whole.cls.seq_relationship.weight, stored["cls.seq_relationship.weight"])
    # The vocabulary's projection is tied to the embeddings and not stored twice.
    assert whole.cls.predictions.decoder.weight is whole.bert.embeddings.word_embeddings.weight

    bare = load_bert(save(BertModel, "bare"))
    with pytest.raises(BadInputError, match=r"lack 8 .*'cls\.predictions\.bias'"):
        load_model(bare, transformers.BertForPreTraining)
    with pytest.raises(BadInputError, match=r"lack 2 of .*'cls\.seq_relationship\.bias' first"):
        load_model(bare, transformers.BertForPreTraining, fresh=("cls.predictions",))
    load_model(bare, transformers.BertForPreTraining, fresh=("cls",))


def test_fresh_parameters_are_drawn_from_torchs_generator(save: Save) -> None:
    bert = load_bert(save())
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model = load_model(bert, transformers.BertForTokenClassification, fresh=("classifier",), num_labels=5)
        drawn.append(model.classifier.weight)
    assert drawn[0].shape == (5, 8)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_part_is_named_by_whole_words(save: Save) -> None:
    bert = load_bert(save())
    with pytest.raises(BadInputError, match=r"'classifier\.bias' first"):
        load_model(bert, transformers.BertForTokenClassification, fresh=("class", "ifier", "weight"))


def test_a_head_of_another_size_is_fresh_if_named_and_refused_if_not(save: Save) -> None:
    bert = load_bert(save(transformers.BertForSequenceClassification, num_labels=3))
    kept = load_model(bert, transformers.BertForSequenceClassification)
    assert kept.classifier.weight.shape == (3, 8)
    again = load_model(bert, transformers.BertForSequenceClassification, fresh=("classifier",), num_labels=4)
    assert again.classifier.weight.shape == (4, 8)
    with pytest.raises(BadInputError, match=r"'classifier\.\w+' .*\(3.*\(4"):
        load_model(bert, transformers.BertForSequenceClassification, num_labels=4)


def test_settings_are_replaced_for_the_model_and_not_for_the_folder(save: Save) -> None:
    bert = load_bert(save())
    model = load_model(bert, BertModel, hidden_dropout_prob=0.0, num_hidden_layers=1)
    assert model.config.hidden_dropout_prob == 0.0
    assert len(model.encoder.layer) == 1
    assert (bert.config.hidden_dropout_prob, bert.config.num_hidden_layers) == (0.1, 2)
    with pytest.raises(TypeError, match="'droopout'"):
        load_model(bert, BertModel, droopout=0.0)


def test_weights_stored_in_half_precision_come_in_float32(save: Save) -> None:
    folder = save(dtype="bfloat16")
    change_weights(
        folder, lambda weights: weights.update({name: value.bfloat16() for name, value in weights.items()})
    )
    model = load_model(load_bert(folder), BertModel)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_weights_that_are_not_all_there_are_refused(save: Save) -> None:
    folder = save()
    change_weights(folder, lambda weights: weights.pop("encoder.layer.1.output.dense.weight"))
    with pytest.raises(BadInputError, match=r"lack 1 .*'encoder\.layer\.1\.output\.dense\.weight'"):
        load_model(load_bert(folder), BertModel)


def test_weights_of_another_size_than_config_json_says_are_refused(save: Save) -> None:
    folder = save()
    change_config(folder, intermediate_size=16)
    with pytest.raises(BadInputError, match=r"size \(12.*\(16"):
        load_model(load_bert(folder), BertModel)


def test_a_vocabulary_that_the_weights_do_not_fit_is_refused_with_both_numbers(save: Save) -> None:
    folder = save()
    words = [*WORDS, "bird", "fish"]
    BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    with pytest.raises(BadInputError) as caught:
        load_bert(folder)
    message = str(caught.value)
    assert "up to 10" in message
    assert "end at 8 (9 tokens)" in message
    assert "tokenizer files" in message


def test_a_vocabulary_smaller_than_the_weights_fits(save: Save) -> None:
    assert load_bert(save(vocab_size=16)).config.vocab_size == 16


def test_a_config_json_of_another_vocabulary_than_the_weights_is_refused(save: Save) -> None:
    folder = save()
    change_config(folder, vocab_size=12)
    with pytest.raises(BadInputError, match=r"\b12 tokens.*\b9\."):
        load_bert(folder)


def test_the_tokenizer_neither_cuts_nor_pads(save: Save) -> None:
    folder = save()
    file = folder / "tokenizer.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    settings["padding"] = {
        "strategy": {"Fixed": 12},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(settings), encoding="utf-8")
    bert = load_bert(folder)
    assert bert.tokenizer.encode("the cat sat the cat").ids == [2, 5, 6, 8, 5, 6, 3]
    assert bert.pretrained_tokenizer("the cat sat the cat")["input_ids"] == [2, 5, 6, 8, 5, 6, 3]


def test_a_tokenizer_of_a_vocabulary_list_alone_is_read(save: Save) -> None:
    folder = save()
    for file in folder.glob("token*"):
        file.unlink()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    assert load_bert(folder).tokenizer.encode("the cat").ids == [2, 5, 6, 3]


def test_text_is_lowered_where_the_sentence_encoder_lowers_it(make_folder: MakeFolder) -> None:
    folder = make_folder()
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(settings | {"do_lower_case": False}), encoding="utf-8")
    cased = load_bert(folder).tokenizer.encode("The CAT").tokens
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": true}')
    assert load_bert(folder).tokenizer.encode("The CAT").tokens == ["[CLS]", "the", "cat", "[SEP]"]
    assert cased == ["[CLS]", "[UNK]", "[UNK]", "[SEP]"]


@pytest.mark.parametrize("settings", [{"do_lower_case": False}, {"strip_accents": False}, {}])
def test_a_tokenizer_that_lowers_its_texts_does_so_when_it_was_saved_and_read_again(
    make_folder: MakeFolder, tmp_path: Path, settings: dict[str, bool]
) -> None:
    folder = make_folder()
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | settings), encoding="utf-8")
    apart = load_bert(folder).tokenizer.encode("the cát").tokens
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": true}')
    bert = load_bert(folder)
    assert bert.tokenizer.encode("The CÁT").tokens == apart
    bert.pretrained_tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again.convert_ids_to_tokens(again("The CÁT")["input_ids"]) == apart


def test_positions_of_a_roberta_begin_after_its_padding(tmp_path: Path) -> None:
    sizes = SIZES | {"max_position_embeddings": 22, "pad_token_id": 0}
    transformers.RobertaModel(transformers.RobertaConfig(**sizes)).save_pretrained(tmp_path / "r")
    BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)}).save_pretrained(tmp_path / "r")
    bert = load_bert(tmp_path / "r")
    assert bert.positions == bert.max_tokens == 21
    with pytest.raises(BadInputError, match=r"'roberta'.*'bert'"):
        load_model(bert, BertModel)


def test_a_limit_past_the_positions_is_brought_down_to_them(make_folder: MakeFolder) -> None:
    assert load_bert(make_folder(max_seq_length=900)).max_tokens == 64


def test_a_model_of_another_family_is_refused(save: Save) -> None:
    folder = save()
    change_config(folder, model_type="gpt2")
    with pytest.raises(BadInputError, match=r"'gpt2'.*bert, camembert"):
        load_bert(folder)


def test_pickled_weights_and_code_are_refused(save: Save) -> None:
    folder = save()
    (folder / "modeling_mine.py").write_text("raise SystemExit\n")
    with pytest.raises(EncoderRefusedError, match="Python code"):
        load_bert(folder)
    (folder / "modeling_mine.py").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    load_bert(folder)  # beside safetensors, which are the ones that are read
    (folder / "model.safetensors").unlink()
    with pytest.raises(EncoderRefusedError, match="pickle"):
        load_bert(folder)


@pytest.mark.parametrize(
    ("lost", "wanted"),
    [
        ("config.json", "no config.json"),
        ("tokenizer.json", r"holds no vocabulary \(tokenizer.json or vocab.txt\)"),
    ],
)
def test_what_is_missing_is_named(lost: str, wanted: str, save: Save) -> None:
    folder = save()
    (folder / lost).unlink()
    with pytest.raises(BadInputError, match=wanted):
        load_bert(folder)


@pytest.mark.parametrize("damaged", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_damaged_file_is_a_known_error(damaged: str, save: Save) -> None:
    folder = save()
    content = (folder / damaged).read_bytes()
    (folder / damaged).write_bytes(content[: len(content) // 2])
    with pytest.raises(NearsayError, match="again"):
        load_model(load_bert(folder), BertModel)


def test_a_training_run_can_tell_the_lineage(save: Save) -> None:
    folder = save()
    (folder / "lineage.json").write_text('["vocabulary 1", "pretraining run 2"]', encoding="utf-8")
    assert load_bert(folder).lineage == ("vocabulary 1", "pretraining run 2", str(folder))


def test_a_bare_name_of_googles_is_looked_for_among_googles(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = save(), []

    def fetch(repository: str, **_: object) -> str:
        asked.append(repository)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert find_bert("bert-base-uncased").name == "google-bert/bert-base-uncased"
    assert find_bert("somebody/bert-large").source == "somebody/bert-large"
    assert asked == ["google-bert/bert-base-uncased", "somebody/bert-large"]


def test_a_folder_goes_before_a_name_of_googles(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(name="bert-mine")
    monkeypatch.chdir(folder.parent)
    assert find_bert("bert-mine").source == str(folder)


def test_changed_bundled_weights_are_refused(
    save: Save, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(save(), tmp_path / "bundled")
    monkeypatch.setattr("nearsay.training.sentence.source.bundled_folder", lambda: tmp_path / "bundled")
    with pytest.raises(NearsayError, match="were changed or damaged"):
        load_bert()


def test_a_bert_that_numbers_one_segment_alone_reads_a_pair_as_one(save: Save) -> None:
    bert = load_bert(save(type_vocab_size=1))
    pair = bert.tokenizer.encode("the cat", "sat")
    assert 1 in pair.type_ids
    model, ids = load_model(bert, BertModel), torch.tensor([pair.ids])
    with torch.inference_mode():
        found = model(input_ids=ids, token_type_ids=torch.tensor([pair.type_ids])).last_hidden_state
        assert torch.equal(found, model(input_ids=ids).last_hidden_state)


def test_loading_says_nothing_on_the_terminal(save: Save, capfd: pytest.CaptureFixture[str]) -> None:
    folder = save()
    capfd.readouterr()
    load_model(load_bert(folder), transformers.BertForMaskedLM, fresh=("cls",))
    assert capfd.readouterr() == ("", "")
