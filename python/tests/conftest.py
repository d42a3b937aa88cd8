"""Small tables that the tests draw themselves."""

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
