"""Relates noise, steps, sampling rate, ε and δ of a private run.

The arguments are the flags of the command ``dptrain budget``, with ``_`` for ``-``::

    >>> dptrain.budget.epsilon(rate=0.01, noise=4, steps=10000, delta=1e-5)
    >>> dptrain.budget.noise(records=60000, lot=600, epochs=60, epsilon=2)
"""

from . import _program


def epsilon(**settings):
    """Returns the ε that a run spends."""
    return solve("epsilon", **settings)["epsilon"]


def noise(**settings):
    """Returns the least noise multiplier that keeps a run within ε."""
    return solve("noise", **settings)["noise_multiplier"]


def steps(**settings):
    """Returns the largest number of steps within ε."""
    return solve("steps", **settings)["steps"]


def rate(**settings):
    """Returns the largest sampling rate within ε."""
    return solve("rate", **settings)["rate"]


def delta(**settings):
    """Returns the δ that a run spends at a given ε."""
    return solve("delta", **settings)["delta"]


def solve(unknown, **settings):
    """Computes one quantity and returns it with all inputs and the adjacency, as a dict."""
    return _program.run_json(["budget", unknown, *_program.flags(settings)])


def compare(**settings):
    """Returns the ε of a run by every accountant, as a list of dicts."""
    return _program.run_json(["budget", "compare", *_program.flags(settings)])["rows"]


def statement(**settings):
    """Returns the paragraph on privacy for a paper or a model card."""
    return _program.run_json(["budget", "statement", *_program.flags(settings)])["statement"]
