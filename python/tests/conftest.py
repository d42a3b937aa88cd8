"""Small tables that the tests draw themselves, and a small public checkpoint."""

import json
import os
import shutil

import numpy as np
import pytest

BOUNDS = {"age": (0, 100), "hours": (0, 80)}
CATEGORIES = {"sex": ["Female", "Male"]}
FACTS = {"bounds": BOUNDS, "categories": CATEGORIES}


def draw(rows, seed=1):
    """Returns columns and labels: a label follows from age, and sex with noise."""
    random = np.random.default_rng(seed)
    columns = {
        "age": random.integers(0, 100, rows),
        "hours": random.uniform(0, 80, rows),
        "sex": random.choice(np.array(["Female", "Male"], dtype=object), rows),
    }
    score = columns["age"] / 50 - 1 + 0.5 * (columns["sex"] == "Male") + random.normal(0, 0.2, rows)
    return columns, np.where(score > 0.25, "high", "low")


@pytest.fixture(scope="session")
def table():
    return draw(2000)


def copy_checkpoint(name, tokenizer, to):
    """Copies a checkpoint of random weights from models/pretrained/testdata, and gives it a tokenizer."""
    source = os.path.join(os.path.dirname(__file__), name)
    if not os.path.exists(source):
        pytest.skip(f"the folder {name} of models/pretrained/testdata is not in the folder of the tests")
    shutil.copytree(source, to / name)
    (to / name / "tokenizer.json").write_text(json.dumps(tokenizer))
    return str(to / name)


def word_pieces(words):
    """Returns a tokenizer of BERT."""
    return {
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(words)},
        },
    }  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path):
    """Returns a folder with a BERT of random weights, whose tokenizer has 16 pieces."""
    words = "[PAD] [UNK] [CLS] [SEP] good bad film a very ##s the is . plot dull fine".split()
    return copy_checkpoint("bert", word_pieces(words), tmp_path)


@pytest.fixture
def decoder(tmp_path):
    """Returns a folder with a GPT-2 of random weights, whose tokenizer has 17 letters."""
    letters = {letter: i for i, letter in enumerate("abde~gilmoprstuv ")}
    return copy_checkpoint("gpt2-packed", {"model": {"type": "BPE", "merges": [], "vocab": letters}}, tmp_path)


@pytest.fixture
def encoder(tmp_path):
    """Returns a folder with a BERT that finds masked ids."""
    words = "[PAD] [UNK] [CLS] [SEP] good bad film a very ##s the is . plot dull [MASK]".split()
    mask = {"added_tokens": [{"id": 15, "content": "[MASK]", "special": True}]}
    return copy_checkpoint("bert-masked", {**word_pieces(words), **mask}, tmp_path)
