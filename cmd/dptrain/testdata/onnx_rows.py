"""Run MODEL with onnxruntime on the rows of a CSV file, as a user has them, and compare its
answers with those of predict --scores.

Usage: onnx_rows.py MODEL ROWS.csv ANSWERS.csv   (needs numpy, onnx, onnxruntime)
"""

import csv
import datetime
import sys

import numpy as np
import onnx
import onnxruntime

model, rows, answers = sys.argv[1:]
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
rows, answers = (list(csv.DictReader(open(file, newline=""))) for file in (rows, answers))


def number(cell):
    """A number, a date as days since 1970-01-01, or NaN for a missing value."""
    if cell in ("", "NA"):
        return np.nan
    if cell.count("-") == 2 and "e" not in cell:
        return (datetime.date.fromisoformat(cell) - datetime.date(1970, 1, 1)).days
    return float(cell)


readers = {"tensor(double)": (number, np.float64), "tensor(string)": (str, object)}
for some in (rows, rows[:1]):
    feed = {}
    for column in session.get_inputs():
        read, kind = readers[column.type]
        feed[column.name] = np.array([[read(row[column.name])] for row in some], kind)
    got = session.run(None, feed)
    for k, answer in enumerate(answers[: len(some)]):
        if "class" in answer:
            classes, probabilities, _ = got
            assert classes[k] == answer["class"], (k, classes[k], answer)
            for name, p in zip([n for n in answer if n.startswith("probability:")], probabilities[k]):
                assert abs(p - float(answer[name])) <= 1e-6, (k, name, p, answer)
        else:
            (want,) = (float(v) for v in answer.values())
            assert abs(got[0][k][0] - want) <= 1e-5 * max(1, abs(want)), (k, got[0][k], want)
print(len(answers), "rows")
