"""Runs the Python lines that the chapters of `dptrain learn` show. DPTRAIN_GUIDE_LINES names the file with
them, which a test of the program writes: see .ci/full."""

import json
import math
import os
import random

import numpy as np
import pandas
import pytest

import dptrain
from conftest import draw

_path = os.environ.get("DPTRAIN_GUIDE_LINES")
LINES = sorted({line["python"] for line in json.load(open(_path, encoding="utf-8"))}) if _path else []


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the lines leave to the reader: data, and the ledger of a run."""
    folder = tmp_path_factory.mktemp("guide")
    os.makedirs(folder / "runs/first")
    columns, labels = draw(500)
    model = dptrain.Classifier(epsilon=2, bounds={"age": (0, 100), "hours": (0, 80)}, categories={"sex": ["Female", "Male"]}, classes=["low", "high"], steps=5)
    model.fit(pandas.DataFrame(columns), labels)
    model.ledger_.save(folder / "ledger.jsonl")
    model.ledger_.save(folder / "runs/first/ledger.jsonl")
    generator = np.random.default_rng(1)
    rows = 2000
    people = pandas.DataFrame({"person": [f"p{i // 2}" for i in range(rows)], "age": generator.integers(0, 90, rows)})
    x = generator.uniform(-1, 1, (rows, 1))
    return folder, {
        "dptrain": dptrain, "math": math, "random": random, "truth": True,
        "X": generator.uniform(0, 1, (rows, 5)), "y": generator.integers(0, 10, rows), "edges": generator.uniform(0, 1, (rows, 392)),
        "people": people, "sick": np.where(people["age"] > 45, "yes", "no"), "x": x,
    }  # fmt: skip


@pytest.mark.skipif(not LINES, reason="DPTRAIN_GUIDE_LINES is not set")
@pytest.mark.parametrize("lines", LINES)
def test_lines_of_the_guide(lines, names, monkeypatch):
    folder, known = names
    monkeypatch.chdir(folder)
    known = dict(known)
    if "Regressor" in lines:
        known["y"] = 0.9 * known["x"][:, 0] - 0.5
    exec(lines, known)
