"""The record of what runs have spent."""

import os
import tempfile

from . import _program


class Ledger:
    """A privacy ledger: the sampling events and the noise of each lot, from which anyone can compute ε.

    >>> dptrain.Ledger.open("runs/mine/ledger.jsonl").epsilon(delta=1e-5)
    """

    def __init__(self, content):
        self.content = content

    @classmethod
    def open(cls, path):
        """Reads a ledger file, or the ledger of a run's folder."""
        if os.path.isdir(path):
            path = os.path.join(path, "ledger.jsonl")
        with open(path, "rb") as file:
            return cls(file.read())

    def save(self, path):
        """Writes the ledger to a file."""
        with open(path, "wb") as file:
            file.write(self.content)

    def epsilon(self, delta, **settings):
        """Returns the ε of everything in the ledger at a δ."""
        return self._run("epsilon", delta=delta, **settings)["epsilon"]

    def verify(self):
        """Returns the number of entries. A damaged ledger raises LedgerError with the line number."""
        return self._run("verify")["entries"]

    def __repr__(self):
        return f"<Ledger of {len(self.content.splitlines())} lines>"

    def _run(self, command, **settings):
        with tempfile.TemporaryDirectory(prefix="dptrain-") as folder:
            path = os.path.join(folder, "ledger.jsonl")
            self.save(path)
            return _program.run_json(["ledger", command, path, *_program.flags(settings)])
