"""Measures fit of a pandas table against the command line on the same rows: python measure.py adult.csv [RUNS]

It needs the package, pandas, and Adult (UCI) as one CSV file whose last column is the label. A fifth of the
rows is held out. Each run of the command line reads the rows from a CSV file, with the schema and the seed of
the estimator, so it releases the same weights. The limits and words of the columns are those of the file, which
is public. Other programs change elapsed time, and hardly processor time.
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time

import numpy as np
import pandas as pd

import dptrain
from dptrain import _program


def processor():
    """Returns the processor time of this process and of its children that ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def timed(run):
    """Returns the result, the elapsed time and the processor times of Python and of the program."""
    start, before = time.perf_counter(), processor()
    result = run()
    after = processor()
    return result, time.perf_counter() - start, after[0] - before[0], after[1] - before[1]


def main(path, runs=5):
    table = pd.read_csv(path)
    table.columns = [*table.columns[:-1], "y"]
    held_out = np.random.default_rng(1).permutation(len(table)) < len(table) // 5
    train, test = table[~held_out], table[held_out]
    X, y = train.drop(columns="y"), train["y"]
    numbers = X.select_dtypes("number").columns
    facts = {
        "bounds": {c: (float(table[c].min()), float(table[c].max())) for c in numbers},
        "categories": {c: sorted(table[c].astype(str).unique()) for c in X.columns if c not in numbers},
        "classes": sorted(table["y"].unique()),
    }
    rows = {"fit": [], "command line": []}
    accuracies = []
    with tempfile.TemporaryDirectory() as folder:
        train.to_csv(os.path.join(folder, "train.csv"), index=False)
        for seed in range(runs):
            estimator = dptrain.Classifier(epsilon=1, seed=seed, **facts)
            model, *times = timed(lambda: estimator.fit(X, y))  # noqa: B023
            rows["fit"].append(times)
            accuracies.append(model.score(test.drop(columns="y"), test["y"]))
            with open(os.path.join(folder, "schema.json"), "wb") as file:
                file.write(model.run_.files["schema.json"])
            command = ["train", "--data", f"{folder}/train.csv", "--schema", file.name, "--epsilon", "1", "--seed", str(seed),
                       "--out", f"{folder}/{seed}", "--quiet", "--json"]  # fmt: skip
            _, *times = timed(lambda: _program.run_json(command))  # noqa: B023
            rows["command line"].append(times)
            with open(f"{folder}/{seed}/model.safetensors", "rb") as file:
                if file.read() != model.run_.files["model.safetensors"]:
                    sys.exit("measure: the command line released other weights than the estimator")
    print(f"{len(train)} rows, {len(X.columns)} columns, {runs} runs; medians in seconds, and ranges")
    for name, times in rows.items():
        parts = [f"{what} {statistics.median(t):.3f} ({min(t):.3f} to {max(t):.3f})"
                 for what, t in zip(["elapsed", "processor of Python", "processor of the program"], zip(*times))]  # fmt: skip
        print(f"{name}: " + ", ".join(parts))
    print(f"accuracy: {np.mean(accuracies):.4f} ± {np.std(accuracies, ddof=1) / runs**0.5:.4f}, the same for both: {json.dumps(model.report_['steps'])} lots")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
