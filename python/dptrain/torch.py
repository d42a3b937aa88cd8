"""Trains modules of PyTorch with differential privacy.

>>> import dptrain.torch
>>> run = dptrain.torch.train(module, (X, y), epsilon=2)   # the module has the trained weights
>>> run.epsilon, run.delta, run.privacy_statement()
>>> run = dptrain.torch.train(module, (X, y), epsilon=2, target_bounds=(0, 99))
>>> run.in_units(module(X_new))                            # predictions between 0 and 99

The module's layers and starting weights are passed to the program, which samples the lots, clips, adds
noise, trains and accounts. The trained weights come back into the module.
"""

import io
import os

import numpy as np
import torch

from . import _layers, _program, _safetensors
from ._errors import SettingError
from ._facts import pair
from ._run import Progress, Report, Run, run_folder
from .ledger import Ledger

_NOT_SETTINGS = {"data", "model", "init", "freeze", "fresh", "classes", "target", "bounds", "tokens", "json", "quiet", "config", "test", "show_private", "dry_run", "print_config"}


class Trained:
    """A run of ``train``: ``epsilon``, ``delta``, ``report`` and ``ledger``."""

    def __init__(self, run, target_bounds=None):
        self._run = run
        self._target_bounds = target_bounds
        self.report = Report(run)
        self.epsilon, self.delta = self.report["epsilon"], self.report["delta"]
        self.ledger = Ledger(run.files.get("ledger.jsonl", b""))

    def privacy_statement(self):
        """Returns the paragraph on privacy for a paper or a model card."""
        return self._run.statement()

    def in_units(self, output):
        """Returns the predictions of the target, within its bounds, for outputs of the module."""
        if self._target_bounds is None:
            raise SettingError("dptrain: the module is a classifier; in_units is for a run with target_bounds")
        low, high = self._target_bounds
        return low + (output.clamp(-1, 1) + 1) * ((high - low) / 2)

    def save(self, folder):
        """Writes the files of the run into a folder, which the command line reads."""
        self._run.write(folder)

    def _repr_html_(self):
        return self.report._repr_html_()


def train(model, dataset, epsilon=1.0, delta=None, test=None, out=None, resume=None, target_bounds=None, **settings):
    """Trains a module on private examples and returns the run. The module gets the trained weights.

    model : a module that reads one tensor and returns the logits, one for each class, or one number for a
        target. docs/python.md lists the layers; another operation is an error that names it. Its weights
        are public: ε does not cover records that they were trained on before. Parameters without
        requires_grad stay as they are.
    dataset : a pair (X, y), a Dataset, or a DataLoader, whose data set is used. X has numbers, or
        whole numbers below the vocabulary of an Embedding; y has whole numbers from 0, or targets.
    test : a data set that is public; the report has the accuracy or the error on it.
    target_bounds : the public limits of targets, (low, high), which make the task a regression. The module
        learns targets that are scaled to [-1, 1]; in_units of the run inverts this.
    out : a folder to keep the run in. resume is the folder of an interrupted run to continue.
    settings : the flags of ``dptrain train``, such as lot=512, epochs=20, clip=0.5 or lr=0.1. noise= replaces
        epsilon.
    """
    for name in settings:
        if name in _NOT_SETTINGS:
            raise SettingError(f"dptrain: {name} is not a setting of train; the module and the data set are arguments")
    bounds = None if target_bounds is None else pair(target_bounds, "y")
    x, y = _arrays(dataset, "dataset", bounds)
    module = model
    if any("." not in name for name, _ in model.named_parameters()):
        module = torch.nn.Sequential(model)  # so that each parameter has a layer's name
    buffers = [name for name, _ in module.named_buffers()]
    if buffers:
        raise SettingError(
            f"dptrain: the module has the buffer {buffers[0]}, which is no parameter: the statistics of a batch mix examples; "
            "use torch.nn.GroupNorm or LayerNorm in place of a batch norm"
        )
    example = torch.from_numpy(x[0])
    layers, outputs = _layers.describe(module, example)
    _check_outputs(outputs, bounds)
    files = {"x_train": x, "y_train": y}
    if test is not None:
        files["x_test"], files["y_test"] = _arrays(test, "test", bounds)
    arrays = io.BytesIO()
    np.savez(arrays, **files)
    done = []
    with run_folder(resume or out, keep=lambda folder: done.append(_take(module, folder, bounds))) as folder:
        if resume:
            arguments = ["--resume", folder]
        else:
            arguments = ["--out", folder, "--data", "-", *_arguments(module, layers, folder)]
            arguments += ["--classes", str(outputs)] if bounds is None else ["--target", "y", "--bounds", f"y={bounds[0]!r}:{bounds[1]!r}"]
            arguments += _program.flags({"epsilon": None if "noise" in settings else epsilon, "delta": delta, **settings})
        with Progress(folder) as progress:
            _program.run(["train", "--json", "--quiet", *arguments], [arrays.getbuffer()], progress.update)
        done.append(_take(module, folder, bounds))
    return done[-1]


def _check_outputs(outputs, bounds):
    if bounds is None and outputs < 2:
        raise SettingError(
            f"dptrain: the module returns {outputs} number for an example; a classifier needs one for each class, at least two, "
            "and a regression needs target_bounds=(low, high)"
        )
    if bounds is not None and outputs != 1:
        raise SettingError(f"dptrain: the module returns {outputs} numbers for an example; with target_bounds it must return one, the target")


def _arguments(module, layers, folder):
    """The flags for the network and its starting weights, which are public."""
    start = os.path.join(folder, "start.safetensors")
    _safetensors.write(start, {n: p.detach().cpu().float().numpy() for n, p in module.named_parameters()}, {"format": "pt"})
    arguments = ["--model", "layers:" + layers, "--init", start]
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    if frozen:
        arguments += ["--freeze", ",".join(frozen)]
    vocabularies = {m.num_embeddings for m in module.modules() if isinstance(m, torch.nn.Embedding)}
    if vocabularies:
        arguments += ["--tokens", str(vocabularies.pop())]
    return arguments


def _take(module, folder, bounds):
    """Reads a run, and copies its weights into the module."""
    weights = os.path.join(folder, "weights.safetensors")
    _program.run(["export", folder, "--out", weights, "--overwrite", "--quiet"])
    values = _safetensors.read(weights)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(values[name].copy()))
    return Trained(Run.read(folder), bounds)


def _arrays(dataset, name, bounds):
    """Returns the examples of a data set, and their classes or their targets with bounds, as arrays."""
    if isinstance(dataset, torch.utils.data.DataLoader):
        dataset = dataset.dataset
    if isinstance(dataset, torch.utils.data.TensorDataset):
        dataset = dataset.tensors
    if isinstance(dataset, torch.utils.data.Dataset):
        if not hasattr(dataset, "__len__"):
            raise SettingError(f"dptrain: {name} has no length; give a data set with a length, or a pair (X, y)")
        rows = [dataset[i] for i in range(len(dataset))]
        dataset = tuple(torch.stack([torch.as_tensor(row[k]) for row in rows]) for k in range(2))
    if not isinstance(dataset, (tuple, list)) or len(dataset) != 2:
        raise SettingError(f"dptrain: {name} must be a pair (X, y), a Dataset or a DataLoader of pairs")
    x, y = (torch.as_tensor(part).detach().cpu().numpy() for part in dataset)
    if x.dtype.kind == "f":
        x = x.astype(np.float32)
    elif x.dtype.kind not in "iu" or x.dtype == np.uint8:
        raise SettingError(f"dptrain: X of {name} has the type {x.dtype}; give float32, or int64 for indices, such as X.float() / 255 for pixels")
    if len(x) != len(y) or x.ndim < 2:
        raise SettingError(f"dptrain: {name} has X of shape {x.shape} and y of shape {y.shape}; y must have one value for each example of X")
    return np.ascontiguousarray(x), np.ascontiguousarray(_classes(y, name) if bounds is None else _targets(y, name))


def _classes(y, name):
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise SettingError(
            f"dptrain: y of {name} has the shape {y.shape} and the type {y.dtype}; y must have one class for each example, a whole number from 0; "
            "for a regression give target_bounds=(low, high), the public limits of y"
        )
    return y.astype(np.int64)


def _targets(y, name):
    if y.dtype.kind not in "fiu" or y.ndim > 2 or y.size != len(y):
        raise SettingError(f"dptrain: y of {name} has the shape {y.shape} and the type {y.dtype}; y must have one number for each example")
    return y.reshape(-1).astype(np.float32)
