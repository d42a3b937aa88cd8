"""TextClassifier with a public checkpoint: DPTRAIN_CHECKPOINT names a small random BERT with 16 ids."""

import json
import os
import pickle
import shutil

import numpy as np
import pytest

import dptrain
from dptrain import _program

CHECKPOINT = os.environ.get("DPTRAIN_CHECKPOINT")
pytestmark = pytest.mark.skipif(not CHECKPOINT, reason="DPTRAIN_CHECKPOINT names no checkpoint")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "very", "##s", "the", "is", ".", "plot", "dull", "fine"]
TOKENIZER = {
    "version": "1.0", "added_tokens": [], "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {piece: i for i, piece in enumerate(PIECES)},
    },
}  # fmt: skip
X, Y = ["A very good film.", "the plot is bad", "films: dull dull"] * 20, ["happy", "sad", "sad"] * 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(CHECKPOINT, tmp_path / "ck")
    (tmp_path / "ck/tokenizer.json").write_text(json.dumps(TOKENIZER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def classifier(model, **settings):
    return dptrain.TextClassifier(noise=1, classes=["sad", "happy"], model=model, length=8, lot=20, **settings)


@pytest.mark.parametrize("part", ["train=head", "train=bias", "lora=2", "train=all"])
def test_each_part_of_a_checkpoint_is_trained(folder, monkeypatch, part):
    model = classifier(f"hf:ck,{part}", steps=3).fit(X, Y)
    monkeypatch.chdir("/")  # the path of the checkpoint does not depend on the folder
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (60, 2) and np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), probabilities)


def test_the_same_weights_as_the_command_line(folder):
    model = classifier("hf:ck,train=head", steps=5, lr=0.1, seed=7).fit(X, Y)
    (folder / "train.csv").write_text("text,y\n" + "".join(f'"{x}",{y}\n' for x, y in zip(X, Y)))
    _program.run_json(
        ["train", "--data", "train.csv", "--text", "text", "--label", "y", "--classes", "sad,happy", "--model", "hf:ck,train=head",
         "--length", "8", "--lot", "20", "--noise", "1", "--steps", "5", "--lr", "0.1", "--seed", "7", "--out", "run", "--quiet"]
    )  # fmt: skip
    assert (folder / "run/model.safetensors").read_bytes() == model.run_.files["model.safetensors"]
    before = classifier("hf:ck,train=head", steps=1, lr=1e-9, seed=7).fit(X, Y).predict_proba(X)
    assert not np.allclose(before, model.predict_proba(X), atol=1e-4)


def test_a_checkpoint_that_is_not_there(folder):
    with pytest.raises(dptrain.SettingError, match="none"):
        classifier("hf:none", steps=1).fit(X, Y)
