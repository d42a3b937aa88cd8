"""TextClassifier with a public checkpoint: a small BERT of random weights."""

import pickle

import numpy as np
import pytest

import dptrain
from dptrain import _program

X, Y = ["A very good film.", "the plot is bad", "films: dull dull"] * 20, ["happy", "sad", "sad"] * 20


@pytest.fixture
def folder(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def classifier(model, **settings):
    return dptrain.TextClassifier(noise=1, classes=["sad", "happy"], model=model, length=8, lot=20, **settings)


@pytest.mark.parametrize("part", ["train=head", "train=bias", "lora=2", "train=all"])
def test_each_part_of_a_checkpoint_is_trained(folder, monkeypatch, part):
    model = classifier(f"hf:bert,{part}", steps=3).fit(X, Y)
    monkeypatch.chdir("/")  # the path of the checkpoint does not depend on the folder
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (60, 2) and np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), probabilities)


def test_the_same_weights_as_the_command_line(folder):
    model = classifier("hf:bert,train=head", steps=5, lr=0.1, seed=7).fit(X, Y)
    (folder / "train.csv").write_text("text,y\n" + "".join(f'"{x}",{y}\n' for x, y in zip(X, Y)))
    _program.run_json(
        ["train", "--data", "train.csv", "--text", "text", "--label", "y", "--classes", "sad,happy", "--model", "hf:bert,train=head",
         "--length", "8", "--lot", "20", "--noise", "1", "--steps", "5", "--lr", "0.1", "--seed", "7", "--out", "run", "--quiet"]
    )  # fmt: skip
    assert (folder / "run/model.safetensors").read_bytes() == model.run_.files["model.safetensors"]
    before = classifier("hf:bert,train=head", steps=1, lr=1e-9, seed=7).fit(X, Y).predict_proba(X)
    assert not np.allclose(before, model.predict_proba(X), atol=1e-4)


def test_a_checkpoint_that_is_not_there(folder):
    with pytest.raises(dptrain.SettingError, match="none"):
        classifier("hf:none", steps=1).fit(X, Y)
