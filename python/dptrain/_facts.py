"""Public facts about the columns of a private table.

A limit or a word that is taken from private rows would reveal them, so the user states it. The
program reads the facts from a schema, a file of public settings.
"""

import math

import numpy as np

from ._arrow import Words
from ._errors import SettingError


class Facts:
    """Bounds, categories and classes; what the user gives precedes what public rows show."""

    def __init__(self, bounds=None, categories=None, classes=None, dates=None):
        self.bounds = bounds if is_pair(bounds) else _by_name(bounds)
        self.categories = _by_name(categories)
        self.dates = _by_name(dates)
        self.classes = classes

    def add_sample(self, columns):
        """Adds what public rows show: the limits of numbers, and words."""
        shared = self.bounds if is_pair(self.bounds) else None
        bounds = {} if shared else dict(self.bounds)
        for name, column in columns.items():
            if name in bounds or name in self.categories or name in self.dates:
                continue
            if isinstance(column, Words):
                words = sorted({column.words[c] for c in np.unique(column.codes)} - {""})
                self.categories[name] = words or ["none"]
            elif not shared:
                bounds[name] = limits(column)
        self.bounds = shared or bounds

    def schema(self, columns):
        """Returns the part of the schema that describes features."""
        bounds, vocabulary, undescribed = {}, {}, []
        for name, column in columns.items():
            if name in self.dates:
                continue
            if name in self.categories:
                vocabulary[name] = [str(word) for word in self.categories[name]]
            elif is_pair(self.bounds) and not isinstance(column, Words):
                bounds[name] = pair(self.bounds, name)
            elif not is_pair(self.bounds) and name in self.bounds:
                bounds[name] = pair(self.bounds[name], name)
            else:
                undescribed.append(f"{name} ({'words' if isinstance(column, Words) else 'numbers'})")
        if undescribed:
            raise SettingError(
                f"dptrain: nothing public is known about the columns {', '.join(undescribed)}: a limit or a word that is "
                "taken from private rows reveals them; give bounds={'column': (low, high)} for numbers, "
                "categories={'column': [words]} for words, ignore=['column'], or public_sample=rows that are public"
            )
        described = [self.categories, self.dates, {} if is_pair(self.bounds) else self.bounds]
        unknown = sorted({str(name) for facts in described for name in facts} - set(columns))
        if unknown:
            raise SettingError(f"dptrain: X has no column {unknown[0]!r}, which bounds, categories or dates describe; its columns are {', '.join(columns)}")
        return {"bounds": bounds, "vocabulary": vocabulary, "dates": {k: [str(d) for d in v] for k, v in self.dates.items()}}


def _by_name(facts):
    """Returns facts by the names of columns, which are texts."""
    return {str(name): fact for name, fact in (facts or {}).items()}


def is_pair(bounds):
    """Reports whether bounds are one pair of limits for all columns of numbers."""
    return isinstance(bounds, (tuple, list))


def pair(bounds, name):
    """Returns two finite limits as floats."""
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError):
        raise SettingError(f"dptrain: the bounds of {name!r} are {bounds!r}; give a pair of numbers, such as (0, 120)") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SettingError(f"dptrain: the bounds of {name!r} are {bounds!r}; the lower one must be less than the upper one, and both finite")
    return [low, high]


def limits(column):
    """Returns the limits of public numbers."""
    finite = np.asarray(column, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return (0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if low < high:
        return (low, high)
    width = abs(low) or 1.0
    return (low - width, low + width)


def distinct(column):
    """Returns the distinct values of a public column."""
    if isinstance(column, Words):
        return np.array(sorted({column.words[c] for c in np.unique(column.codes)} - {""}))
    return np.unique(column)
