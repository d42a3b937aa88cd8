"""What a run released: its model, its summary and its ledger. All of it is public."""

import contextlib
import html
import json
import os
import re
import shutil
import tempfile

from . import _program
from ._errors import DptrainError

_FILES = [
    "config.yaml", "schema.json", "run.json", "ledger.jsonl", "metrics.jsonl", "model.safetensors", "model.json",
    "report.html", "MODEL_CARD.md",
]  # fmt: skip


class Report(dict):
    """The summary of a run, with the keys of run.json. A notebook shows a table."""

    def __init__(self, run):
        super().__init__(run.summary)
        self._run = run

    def save(self, path):
        """Writes the report as a page of HTML."""
        with open(path, "wb") as file:
            file.write(self._run.files["report.html"])

    def _repr_html_(self):
        rows = {
            "privacy": f"ε = {_number(self['epsilon'])}, δ = {_number(self['delta'])}" if self["private"] else "none",
            "adjacency": self["adjacency"], "unit of privacy": self["unit"], "records": self["records"],
            "network": f"{self['model']}, {self['parameters']} weights",
            "lots": f"{self['steps']} of about {_number(self['expected_lot'])} records",
            "noise multiplier": _number(self["noise_multiplier"]), "seconds": _number(self["seconds"]),
        }  # fmt: skip
        cells = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
        warnings = "".join(f"<li>{html.escape(w)}</li>" for w in self["warnings"] or [])
        return f"<table>{cells}</table>" + (f"<ul>{warnings}</ul>" if warnings else "")

    def __reduce__(self):
        return Report, (self._run,)


class Run:
    """The files of a run's folder, in memory."""

    def __init__(self, files):
        self.files = files
        self.summary = json.loads(files["run.json"])

    @classmethod
    def read(cls, folder):
        """Reads the folder of a run that ended."""
        files = {}
        for name in _FILES:
            with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
        return cls(files)

    @contextlib.contextmanager
    def folder(self):
        """A temporary folder with the files."""
        with tempfile.TemporaryDirectory(prefix="dptrain-") as folder:
            self.write(folder)
            yield folder

    def write(self, folder):
        """Writes the files into a folder."""
        os.makedirs(folder, exist_ok=True)
        for name, content in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)

    def predict(self, parts):
        """Returns the answers for a table as CSV, with the probability of each class."""
        with self.folder() as folder:
            scores = ["--scores"] if not self.summary.get("target") else []
            return _program.run(["predict", folder, "--data", "-", "--quiet", *scores], parts)

    def evaluate(self, parts):
        """Returns the results of the command eval on a table."""
        with self.folder() as folder:
            return json.loads(_program.run(["eval", folder, "--data", "-", "--json", "--quiet"], parts))

    def generate(self, settings):
        """Returns the texts that the command generate writes."""
        with self.folder() as folder:
            return _program.run_json(["generate", folder, "--quiet", *_program.flags(settings)])["texts"]

    def statement(self):
        """Returns the paragraph on privacy for a paper or a model card."""
        with self.folder() as folder:
            return _program.run_json(["report", folder])["statement"]


def _number(value):
    return value if isinstance(value, str) else f"{value:.4g}"


@contextlib.contextmanager
def run_folder(given, keep):
    """The folder of a run: the given one, or a temporary one.

    A temporary folder is removed, unless it has a ledger of a run that did not end. keep(folder) is called
    for a run that was interrupted and saved.
    """
    folder = os.path.abspath(given) if given else tempfile.mkdtemp(prefix="dptrain-")
    os.makedirs(folder, exist_ok=True)
    try:
        yield folder
    except (KeyboardInterrupt, DptrainError) as error:
        if os.path.exists(os.path.join(folder, "ledger.jsonl")):
            if os.path.exists(os.path.join(folder, "run.json")):
                keep(folder)
            # The ledger states what was spent.
            raise type(error)(f"{error}; the run is in {folder}: resume={folder!r} continues it with the same rows") from None
        if not given:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except BaseException:
        if not given:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if not given:
        shutil.rmtree(folder, ignore_errors=True)


class Progress:
    """A bar of tqdm, where it is installed, for runs of more than two seconds."""

    def __init__(self, folder):
        self._folder = folder
        self._bar = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()

    def update(self):
        """Reads how many lots the run has released."""
        try:
            with open(os.path.join(self._folder, "metrics.jsonl"), encoding="utf-8") as file:
                lots = re.findall(r'"lot":(\d+)', file.read())
            with open(os.path.join(self._folder, "config.yaml"), encoding="utf-8") as file:
                steps = re.search(r"^steps: (\d+)", file.read(), re.MULTILINE)
            from tqdm.auto import tqdm
        except (OSError, ImportError):
            return
        if lots and steps:
            if self._bar is None:
                self._bar = tqdm(total=int(steps[1]), unit="lot", desc="dptrain", delay=2)
            self._bar.update(int(lots[-1]) - self._bar.n)
