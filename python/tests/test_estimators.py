"""The estimators: every kind of table gives the same run, and models behave as in scikit-learn."""

import json
import os
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import BOUNDS, CATEGORIES, FACTS, draw
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dptrain

SETTINGS = {"epsilon": 8, "model": "logistic", "epochs": 5, "lot": 200}


def classifier(**settings):
    return dptrain.Classifier(**{"classes": ["low", "high"], **FACTS, **SETTINGS, **settings})


@pytest.fixture(scope="module")
def fitted(table):
    columns, y = table
    return classifier().fit(pd.DataFrame(columns), y)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas-category": lambda c: pd.DataFrame(c).astype({"sex": "category", "age": "Int64"}),
    "pandas-string": lambda c: pd.DataFrame(c).astype({"sex": "string", "hours": "Float64"}),
    "polars": lambda c: pl.DataFrame({k: v.tolist() for k, v in c.items()}),
    "arrow": lambda c: pa.table({k: v.tolist() for k, v in c.items()}),
    "numpy": lambda c: np.array([*c.values()], dtype=object).T,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_tables_of_every_library_give_the_same_model(table, kind):
    columns, y = table
    seeded = {"seed": 7, "noise": 1.0, "epochs": 1}
    facts = FACTS if kind != "numpy" else {"bounds": {"x0": (0, 100), "x1": (0, 80)}, "categories": {"x2": ["Female", "Male"]}}
    expected = classifier(**seeded).fit(pd.DataFrame(columns), y)
    model = dptrain.Classifier(classes=["low", "high"], **{**SETTINGS, **seeded, **facts}).fit(FRAMES[kind](columns), y)
    assert model.run_.files["model.safetensors"] == expected.run_.files["model.safetensors"]
    assert np.array_equal(model.predict_proba(FRAMES[kind](columns)), expected.predict_proba(pd.DataFrame(columns)))


def test_attributes_of_a_fitted_model(fitted, table):
    assert 7.9 < fitted.epsilon_ <= 8
    assert fitted.delta_ == 1e-5
    assert fitted.ledger_.epsilon(delta=fitted.delta_) == pytest.approx(fitted.epsilon_, rel=1e-6)
    assert fitted.ledger_.verify() > 0
    assert fitted.report_["records"] == 2000
    assert "ε" in fitted.privacy_statement()
    assert "<table>" in fitted._repr_html_()
    assert list(fitted.feature_names_in_) == list(table[0])


def test_learns(fitted):
    columns, y = draw(2000, seed=2)
    X = pd.DataFrame(columns)
    bound = LogisticRegression(max_iter=1000).fit(X.assign(sex=X.sex == "Male"), y).score(X.assign(sex=X.sex == "Male"), y)
    # Noise of ε = 8 costs less than a point; a wrong order of classes or columns costs far more.
    assert fitted.score(X, y) > bound - 0.05


def test_probabilities(fitted):
    columns, _ = draw(500, seed=3)
    p = fitted.predict_proba(pd.DataFrame(columns))
    assert p.shape == (500, 2)
    assert np.allclose(p.sum(axis=1), 1, atol=1e-6)
    assert np.array_equal(fitted.predict(pd.DataFrame(columns)), np.array(["low", "high"])[p.argmax(axis=1)])
    assert fitted.predict_proba(pd.DataFrame(columns)[["sex", "hours", "age"]].loc[:, ["age", "hours", "sex"]]).shape == (500, 2)


def test_pickle_clone_and_pipeline(fitted, table):
    columns, y = table
    X = pd.DataFrame(columns)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.report_["epsilon"] == fitted.epsilon_
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and not hasattr(copy, "run_")
    assert copy.set_params(lot=300).get_params()["lot"] == 300
    model = make_pipeline(FunctionTransformer(), classifier(epochs=1)).fit(X, y)
    assert model.predict(X).shape == (2000,)


def test_cross_validation_warns_of_its_cost(table):
    columns, y = table
    with pytest.warns(dptrain.PrivacyWarning, match="up to"):
        scores = cross_val_score(classifier(epochs=1), pd.DataFrame(columns), y, cv=2)
    assert scores.shape == (2,)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"bounds": {"age": (0, 100)}}, r"nothing public is known about the columns hours \(numbers\)"),
        ({"categories": {}}, r"sex \(words\)"),
        ({"classes": None}, "classes is missing"),
        ({"bounds": {**BOUNDS, "height": (0, 2)}}, "X has no column 'height'"),
        ({"bounds": {**BOUNDS, "age": (100, 0)}}, "the lower one must be less"),
        ({"lott": 5}, "lott"),
        ({"data": "mnist"}, "data is not a setting"),
        ({"epsilon": -1}, "epsilon"),
        ({"record": "user:patient"}, "X has no column 'patient'"),
    ],
)
def test_errors_name_what_is_wrong(table, arguments, message):
    columns, y = table
    with pytest.raises(dptrain.SettingError, match=message) as raised:
        classifier(**arguments).fit(pd.DataFrame(columns), y)
    assert str(raised.value).startswith("dptrain: ") and "\n" not in str(raised.value)


def test_private_values_change_no_error():
    columns, y = draw(2000)
    X = pd.DataFrame(columns).astype({"age": object})
    X.loc[3, "age"] = "unknown"
    X.loc[4, "sex"] = None
    X.loc[5, "hours"] = np.inf
    y[6] = "neither"
    assert classifier(epochs=1).fit(X, y).epsilon_ > 0


def test_public_sample(table):
    columns, y = table
    X = pd.DataFrame(columns)
    model = dptrain.Classifier(public_sample=(X[:200], y[:200]), **SETTINGS).fit(X[200:], y[200:])
    assert list(model.classes_) == ["high", "low"]
    schema = json.loads(model.run_.files["schema.json"])
    assert schema["vocabulary"] == {"sex": ["Female", "Male"]}
    assert schema["bounds"]["age"] == [X.age[:200].min(), X.age[:200].max()]


def test_users_and_ignored_columns(table):
    columns, y = table
    X = pd.DataFrame(columns).assign(person=[f"p{i % 400}" for i in range(2000)], note="x")
    model = classifier(record="user:person", ignore=["note"], lot=50, epochs=2).fit(X, y)
    assert model.report_["records"] == 400
    assert model.report_["unit"] == "user"
    answers = model.predict(X)
    assert answers.shape == (2000,)
    assert np.array_equal(model.predict(X.drop(columns=["person", "note"])), answers)
    assert np.array_equal(model.predict(pl.from_pandas(X)), answers)


def test_regressor():
    columns, _ = draw(4000)
    y = columns["age"] * 2.0 + 10
    model = dptrain.Regressor(target_bounds=(0, 220), **{**FACTS, **SETTINGS}).fit(pd.DataFrame(columns), y)
    new, _ = draw(500, seed=2)
    assert model.score(pd.DataFrame(new), new["age"] * 2.0 + 10) > 0.9
    predicted = model.predict(pd.DataFrame(new))
    assert predicted.min() >= 0 and predicted.max() <= 220


def test_text_classifier_pairs(checkpoint):
    pairs = [("a good film", "the film is fine"), ("the plot is dull", "very good")] * 20
    y = ["yes", "no"] * 20
    settings = dict(epsilon=8, classes=["no", "yes"], model=f"hf:{checkpoint},train=head", length=10, lot=20, steps=2)
    model = dptrain.TextClassifier(**settings).fit(pairs, y)
    assert model.n_features_in_ == 2 and model.predict_proba(pairs[:3]).shape == (3, 2)
    assert model.run_.summary["task"] == "text-classification"
    with pytest.raises(ValueError, match="trained on pairs of texts"):
        model.predict(["one text"])
    with pytest.raises(ValueError, match="some rows of X are pairs"):
        dptrain.TextClassifier(**settings).fit([("a", "b"), "c"] * 20, y)


def test_text_classifier():
    random = np.random.default_rng(1)
    y = random.choice(["bad", "good"], 2000)
    words = {"bad": ["awful", "dull", "poor"], "good": ["great", "lovely", "fine"]}
    X = [" ".join(random.choice([*words[label], "film", "the", "story"], 8)) for label in y]
    model = dptrain.TextClassifier(epsilon=8, classes=["bad", "good"], epochs=5).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.85
    assert model.score(pd.Series(X[1500:]), y[1500:]) == model.score(pl.Series(X[1500:]), y[1500:])
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X[:5]), model.predict(X[:5]))


def test_dates_and_truth_values(table):
    columns, y = table
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(columns["age"], unit="D")
    X = pd.DataFrame({"joined": days, "member": columns["sex"] == "Male", "when": days.strftime("%Y-%m-%d")})
    model = dptrain.Classifier(
        classes=["low", "high"], categories={"member": [False, True]},
        dates={"joined": ("2019-12-31", "2021-01-01"), "when": ("2019-12-31", "2021-01-01")}, **SETTINGS,
    ).fit(X, y)  # fmt: skip
    assert model.score(X, y) > 0.85


def test_out_keeps_the_folder_of_the_run(table, tmp_path):
    columns, y = table
    classifier(out=tmp_path / "run", epochs=1).fit(pd.DataFrame(columns), y)
    assert dptrain.Ledger.open(tmp_path / "run").epsilon(delta=1e-5) > 0
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="reads /proc")
def test_no_private_value_is_written_to_disk(table, tmp_path, monkeypatch):
    columns, y = table
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    X = pd.DataFrame(columns).assign(hours=61.25123, sex="Sekretwort")
    out = tmp_path / "run"
    model = classifier(out=out, epochs=1).fit(X, y)
    model.predict(X)
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"Sekretwort" not in written and b"61.25123" not in written and np.float64(61.25123).tobytes() not in written


def test_resume_continues_an_interrupted_run(table, tmp_path):
    """A child process gets ^C in the middle of a run, as in a terminal."""
    import signal
    import subprocess
    import sys
    import time

    program = f"""
import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
import pandas as pd
from conftest import draw
from test_estimators import classifier
columns, y = draw(2000)
classifier(out={str(tmp_path / "run")!r}, steps=20000, lot=20, epochs=None).fit(pd.DataFrame(columns), y)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    until = time.monotonic() + 600
    while not (tmp_path / "run" / "ledger.jsonl").exists() and time.monotonic() < until and child.poll() is None:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=600)
    assert b"KeyboardInterrupt" in stderr and b"resume=" in stderr
    columns, y = table
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["interrupted"] and summary["steps"] < 20000
    model = classifier(lot=20, epochs=None).fit(pd.DataFrame(columns), y, resume=str(tmp_path / "run"))
    assert model.report_["steps"] == 20000
