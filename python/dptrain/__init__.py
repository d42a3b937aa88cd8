"""Train models on private tables and texts with differential privacy.

>>> import dptrain
>>> model = dptrain.Classifier(epsilon=1, classes=["low", "high"],
...     bounds={"age": (0, 120)}, categories={"sex": ["Female", "Male"]}).fit(X, y)
>>> model.privacy_statement()

Everything that is computed from private rows has noise, and its cost is part of ``model.epsilon_``.
The work is done by the program dptrain, which the package contains.
"""

from . import _program, budget
from ._errors import BudgetError, DptrainError, LedgerError, PrivacyWarning, SettingError
from ._version import __version__
from .ledger import Ledger

__all__ = [
    "BudgetError", "Classifier", "DptrainError", "LanguageModel", "Ledger", "LedgerError", "PrivacyWarning", "Regressor",
    "SettingError", "TextClassifier", "budget",
]  # fmt: skip

_ESTIMATORS = ("Classifier", "LanguageModel", "Regressor", "TextClassifier")

_program.check_version(__version__)


def __getattr__(name):
    """Imports the estimators, and with them scikit-learn, when they are used."""
    if name in _ESTIMATORS:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'dptrain' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_ESTIMATORS])
