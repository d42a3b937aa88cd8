"""Trains a private classifier of a table for several ε: python3 train.py"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dptrain

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import chart

EPSILONS = [0.25, 0.5, 1, 2, 4, 8]
# Public facts: they do not come from the rows.
FACTS = {
    "bounds": {"age": (18, 90), "hours": (0, 80), "years_of_school": (0, 20)},
    "categories": {"job": ["office", "trade", "care", "farm"]},
    "classes": ["low", "high"],
}


def people(rows, seed):
    """Draws people, and whether their income is high."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({
        "age": random.integers(18, 91, rows),
        "hours": random.normal(38, 10, rows).clip(0, 80).round(),
        "years_of_school": random.integers(8, 21, rows),
        "job": random.choice(FACTS["categories"]["job"], rows),
    })  # fmt: skip
    score = (table.years_of_school - 14) / 3 + (table.hours - 38) / 15 - ((table.age - 50) / 25) ** 2 + 1.2 * (table.job == "office")
    return table, np.where(score + random.logistic(0, 0.5, rows) > 0, "high", "low")


def main():
    X, y = people(1000, seed=1)
    X_test, y_test = people(4000, seed=2)
    accuracies = []
    for epsilon in EPSILONS:
        model = dptrain.Classifier(epsilon=epsilon, **FACTS).fit(X, y)
        accuracies.append((epsilon, model.score(X_test, y_test)))
        print(f"ε = {model.epsilon_:.3f}, δ = {model.delta_:g}: accuracy {accuracies[-1][1]:.3f}")
    print(model.privacy_statement())
    majority = max(np.mean(y_test == c) for c in FACTS["classes"])
    chart.lines("result.svg", "A private classifier of 1,000 rows", "ε", "accuracy on test rows",
                {"dptrain.Classifier": accuracies, "most frequent class": [(e, majority) for e in EPSILONS]})  # fmt: skip
    if accuracies[-1][1] < majority + 0.1:
        sys.exit("the model is hardly better than the most frequent class")


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
