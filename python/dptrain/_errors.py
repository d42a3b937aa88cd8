"""Exceptions and warnings. The text of an exception is the line that the program prints."""


class DptrainError(Exception):
    """The program failed."""


class SettingError(DptrainError, ValueError):
    """A setting, the data or the schema are invalid."""


class BudgetError(DptrainError):
    """The budget does not allow the run."""


class LedgerError(DptrainError):
    """A ledger or a checkpoint is damaged."""


class PrivacyWarning(UserWarning):
    """Something costs more privacy, or protects less, than a reader may expect."""


BY_EXIT_CODE = {2: SettingError, 3: BudgetError, 4: LedgerError}
