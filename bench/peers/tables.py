"""Tables of scikit-learn, and private programs that train on the files of cmd/dptrain/internal/defaults/tables.

tables.py export DIR                                 writes the tables
tables.py PROGRAM DIR RUNS EPSILON,EPSILON DELTA     prints a JSON object for each run
"""
import json
import math
import sys
import warnings

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")


def export(folder):
    from sklearn import datasets

    for name, load in {"breast cancer": datasets.load_breast_cancer, "wine": datasets.load_wine, "digits 8×8": datasets.load_digits, "diabetes": datasets.load_diabetes}.items():
        loaded = load()
        write(folder, name, loaded.data, loaded.target)
    make = datasets.make_classification
    write(folder, "made 600×12", *make(600, 12, n_informative=5, random_state=21))
    write(folder, "made 3000×40, 6 classes", *make(3000, 40, n_informative=10, n_classes=6, n_clusters_per_class=1, random_state=22))
    write(folder, "friedman 1500", *datasets.make_friedman1(1500, noise=1, random_state=23))


def write(folder, name, x, y):
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    frame["y"] = y
    frame.to_csv(f"{folder}/{name}.csv", index=False, float_format="%.6g")


class Table:
    """One split of a table, encoded with the public bounds and words of its schema."""

    def __init__(self, folder, run):
        self.schema = json.load(open(f"{folder}/schema.json"))
        self.target = self.schema.get("target")
        self.bounds, self.words = self.schema.get("bounds") or {}, self.schema.get("vocabulary") or {}
        self.scales = self.schema.get("scale") or {}
        classes = self.schema.get("classes")
        self.classes = [str(c) for c in (range(classes) if isinstance(classes, int) else classes or [])]
        self.raw = [pd.read_csv(f"{folder}/{part}{run}.csv", dtype=str, keep_default_na=False) for part in ("train", "test")]
        (self.x, self.y), (self.x_test, self.y_test) = (self.encode(f) for f in self.raw)

    def encode(self, frame):
        columns = []
        for name in frame.columns:
            if name in self.words:
                positions = {str(w): i for i, w in enumerate(self.words[name])}
                columns.append(np.eye(len(positions) + 1)[[positions.get(v.strip(), len(positions)) for v in frame[name]]])
            elif name in self.bounds and name != self.target:
                columns.append(self.scale(frame, name).fillna(0).to_numpy()[:, None])
        if self.target:
            y = self.scale(frame, self.target).to_numpy()
        else:
            positions = {c: i for i, c in enumerate(self.classes)}
            y = np.array([positions[v.strip()] for v in frame[self.schema["label"]]])
        return np.hstack(columns), y

    def number(self, values, name):
        """Numbers by the scale that the schema gives the column."""
        return {"": lambda v: v, "log": np.log, "asinh": np.arcsinh}[self.scales.get(name, "")](values)

    def limits(self, name):
        return tuple(float(self.number(b, name)) for b in self.bounds[name])

    def read(self, frame, name):
        return self.number(pd.to_numeric(frame[name], errors="coerce").clip(*self.bounds[name]), name)

    def scale(self, frame, name):
        low, high = self.limits(name)
        return 2 * (self.read(frame, name) - low) / (high - low) - 1


def diffprivlib(t, epsilon, delta):
    from diffprivlib.models import LinearRegression, LogisticRegression

    if t.target:
        d = t.x.shape[1]
        model = LinearRegression(epsilon=epsilon, bounds_X=(-np.ones(d), np.ones(d)), bounds_y=(-1, 1)).fit(t.x, t.y)
        return np.clip(model.predict(t.x_test), -1, 1), None
    norm = math.sqrt(len(t.bounds) + len(t.words))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000).fit(t.x, t.y)
    return model.predict(t.x_test), model.predict_proba(t.x_test)[:, -1]


def opacus(t, epsilon, delta):
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    x, y = torch.tensor(t.x, dtype=torch.float32), torch.tensor(t.y)
    model = torch.nn.Linear(x.shape[1], len(t.classes) or 1)
    loss = torch.nn.MSELoss() if t.target else torch.nn.CrossEntropyLoss()
    if t.target:
        y = y.float()[:, None]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x) // 4)
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(module=model, optimizer=optimizer, data_loader=loader, target_epsilon=epsilon, target_delta=delta, epochs=30, max_grad_norm=1.0)
    for _ in range(30):
        for a, b in loader:
            optimizer.zero_grad()
            loss(model(a), b).backward()
            optimizer.step()
    with torch.no_grad():
        out = model(torch.tensor(t.x_test, dtype=torch.float32)).numpy()
    if t.target:
        return np.clip(out[:, 0], -1, 1), None
    return out.argmax(1), out[:, -1] - out[:, 0]


def dp_ebm(t, epsilon, delta):
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    if len(t.classes) > 2:
        raise SystemExit(0)  # it has no private classifier for more classes
    names = [n for n in t.raw[0].columns if n in t.words or n in t.bounds and n != t.target]
    kinds = ["nominal" if n in t.words else "continuous" for n in names]
    frames = []
    for raw in t.raw:
        f = raw[names].copy()
        for n in names:
            if n not in t.words:
                f[n] = t.read(raw, n).fillna(sum(t.limits(n)) / 2)  # it refuses missing numbers
        frames.append(f)
    bounds = {n: t.limits(n) for n in names if n not in t.words}
    arguments = dict(feature_names=names, feature_types=kinds, epsilon=epsilon, delta=delta, privacy_bounds=bounds, n_jobs=1)
    if t.target:
        model = DPExplainableBoostingRegressor(privacy_target_min=-1, privacy_target_max=1, **arguments).fit(frames[0], t.y)
        return np.clip(model.predict(frames[1]), -1, 1), None
    model = DPExplainableBoostingClassifier(**arguments).fit(frames[0], t.y)
    return model.predict(frames[1]), model.predict_proba(frames[1])[:, 1]


def main():
    if sys.argv[1] == "export":
        return export(sys.argv[2])
    program, folder, runs, epsilons, delta = sys.argv[1:]
    fit = {"diffprivlib": diffprivlib, "opacus": opacus, "dp-ebm": dp_ebm}[program]
    for run in range(int(runs)):
        t = Table(folder, run)
        for epsilon in map(float, epsilons.split(",")):
            predicted, ranking = fit(t, epsilon, float(delta))
            r = {"epsilon": epsilon, "run": run}
            if t.target:
                r["score"] = -float(np.mean((predicted - t.y_test) ** 2))
            else:
                r["score"] = float(np.mean(np.asarray(predicted).astype(int) == t.y_test))
                if len(t.classes) == 2:
                    from sklearn.metrics import roc_auc_score

                    r["auc"] = float(roc_auc_score(t.y_test, ranking))
            print(json.dumps(r), flush=True)


main()
