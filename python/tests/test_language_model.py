"""LanguageModel: texts are learned, scored and written as the command line does."""

import pickle

import numpy as np
import pandas as pd
import pytest

import dptrain
from dptrain import _program

SPEECHES = ["good tag", "dig", "a rapid big vital prose"] * 20
SPEAKERS = ["a", "b", "c", "d"] * 15


def test_a_decoder_learns_and_writes_texts(decoder, monkeypatch):
    model = dptrain.LanguageModel(noise=1, model=f"hf:{decoder},lora=2", length=8, lot=20, steps=2, seed=3).fit(SPEECHES)
    monkeypatch.chdir("/")
    texts = model.generate("dig", number=3, length=4, seed=1)
    assert len(texts) == 3 and all(text.startswith("dig") for text in texts)
    assert pickle.loads(pickle.dumps(model)).generate("dig", number=3, length=4, seed=1) == texts
    perplexity = model.perplexity(["good", "a big tag"])
    assert 1 < perplexity < 1e6
    assert model.score(["good", "a big tag"]) == pytest.approx(-np.log(perplexity))
    assert model.epsilon_ > 0 and model.report_["task"] == "text-generation"


def test_packed_texts_of_users_are_those_of_the_command_line(decoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"speech": SPEECHES, "who": SPEAKERS})
    settings = {"noise": 1, "length": 10, "lot": 3, "steps": 2, "seed": 3}
    model = dptrain.LanguageModel(model="hf:gpt2-packed,lora=2", record="user:who", pack=True, **settings).fit(table)
    table.to_csv("speeches.csv", index=False)
    _program.run_json(
        ["train", "--data", "speeches.csv", "--text", "speech", "--record", "user:who", "--next", "--pack",
         "--model", "hf:gpt2-packed,lora=2", "--out", "run", "--quiet", *_program.flags(settings)]
    )  # fmt: skip
    assert (tmp_path / "run/model.safetensors").read_bytes() == model.run_.files["model.safetensors"]
    whole = dptrain.LanguageModel(model="hf:gpt2-packed,lora=2", record="user:who", **settings).fit(table)
    assert whole.run_.files["model.safetensors"] != model.run_.files["model.safetensors"]
    assert model.perplexity(table) > 1
    with pytest.raises(dptrain.SettingError, match="no column 'who'"):
        model.fit(SPEECHES)


def test_an_encoder_learns_masked_ids(encoder):
    films = ["A very good film.", "the plot is bad", "films: dull dull"] * 20
    model = dptrain.LanguageModel(noise=1, model=f"hf:{encoder}", masked=0.3, length=8, lot=20, steps=2, seed=3).fit(films)
    assert model.report_["task"] == "fill-mask"
    assert 1 < model.perplexity(films[:3]) < 1e6
    with pytest.raises(dptrain.DptrainError):
        model.generate("the")


def test_a_network_of_letters_needs_no_checkpoint():
    model = dptrain.LanguageModel(noise=1, model="lstm:8", tokens="bytes", length=12, lot=20, steps=2).fit(pd.Series(SPEECHES))
    assert model.perplexity(SPEECHES[:2]) > 1


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", "X is one text"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "X has 2 columns of texts"),
    ],
)
def test_what_is_no_list_of_texts(X, message):
    with pytest.raises(ValueError, match=message):
        dptrain.LanguageModel(model="lstm:8", tokens="bytes").fit(X)


@pytest.mark.parametrize("setting", [{"next": True}, {"pack": True}, {"masked": 0.15}])
def test_other_estimators_name_the_language_model(setting):
    with pytest.raises(dptrain.SettingError, match=f"{next(iter(setting))} is not a setting of TextClassifier; dptrain.LanguageModel has it"):
        dptrain.TextClassifier(classes=["a", "b"], **setting).fit(["x", "y"], ["a", "b"])
