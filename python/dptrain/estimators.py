"""Estimators with scikit-learn's conventions."""

import csv
import io
import os
import sys
import warnings
from json import dumps

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from . import _arrow, _program
from ._errors import PrivacyWarning, SettingError
from ._facts import Facts, distinct, limits, pair
from ._run import Progress, Report, Run, run_folder
from ._table import is_table, read_column, read_columns, without
from .ledger import Ledger

FIT = "fit"  # value of public_sample: the rows given to fit show the public facts

_NOT_SETTINGS = {
    "data", "test", "schema", "config", "resume", "json", "quiet", "label", "target", "vocabulary", "text", "only",
    "print_config", "dry_run", "show_private", "preset", "text_pair",
}  # fmt: skip
_OF_LANGUAGE_MODELS = {"next", "pack", "masked"}


class _Estimator(BaseEstimator):
    """Trains by the program's command train.

    Settings are the flags of ``dptrain train``, with ``_`` for ``-``: ``lot=512``, ``epochs=20``.
    """

    def get_params(self, deep=True):
        """Returns the parameters, with all settings."""
        settings = {k: v for k, v in vars(self).items() if not k.startswith("_") and not k.endswith("_")}
        return {**super().get_params(deep), **settings}

    def set_params(self, **params):
        """Sets parameters; a name that is no parameter becomes a setting."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _settings(self):
        """Returns the settings of the run, apart from the parameters of the constructor."""
        named = set(super().get_params(deep=False))
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in named}
        for name in settings:
            if name in _OF_LANGUAGE_MODELS and not isinstance(self, LanguageModel):
                raise SettingError(f"dptrain: {name} is not a setting of {type(self).__name__}; dptrain.LanguageModel has it")
            if name in _NOT_SETTINGS:
                raise SettingError(f"dptrain: {name} is not a setting of {type(self).__name__}; the table and its facts are arguments")
        settings["model"] = None if self.model == "auto" else _absolute(self.model)
        settings.update(epsilon=None if "noise" in settings else self.epsilon, delta=self.delta, record=self.record)
        return settings

    def _train(self, columns, schema, resume):
        """Trains on a table and sets the attributes of a fitted model."""
        self._warn_about_folds()
        settings = self._settings()
        for name in ("missing", "scale"):
            if isinstance(settings.get(name), dict):
                schema[name] = settings.pop(name)
        for name in ("ignore", "dates"):
            settings.pop(name, None)
        with run_folder(resume or self.out, keep=self._take) as folder:
            if resume:
                arguments = ["--resume", folder]
            else:
                with open(os.path.join(folder, "schema.json"), "w", encoding="utf-8") as file:
                    file.write(dumps({k: v for k, v in schema.items() if v}, ensure_ascii=False))
                arguments = ["--out", folder, "--data", "-", "--schema", file.name, *_program.flags(settings)]
            with Progress(folder) as progress:
                _program.run(["train", "--json", "--quiet", *arguments], _arrow.write(columns), progress.update)
            self._take(folder)
        return self

    def _take(self, folder):
        self.run_ = Run.read(folder)
        self.report_ = Report(self.run_)
        self.epsilon_, self.delta_ = self.report_["epsilon"], self.report_["delta"]
        self.ledger_ = Ledger(self.run_.files.get("ledger.jsonl", b""))

    def _warn_about_folds(self):
        """Warns in a cross-validation: each fit releases a model of the same rows."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "_fit_and_score" and "sklearn" in frame.f_code.co_filename:
                warnings.warn(
                    "dptrain: each fit of a cross-validation costs its own ε, and most rows are in several folds: k folds cost a row "
                    "up to (k-1)·ε; use validation_split=0.1 for one noised result, or dptrain tune, whose ε includes the choice",
                    PrivacyWarning,
                    stacklevel=2,
                )
                return
            frame = frame.f_back

    def _check(self, X, reset):
        """Checks the shape of X, and its names against those of fit."""
        if is_table(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if not len(X):
                raise ValueError("dptrain: X has no rows")
            return X
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)

    def _left_out(self):
        """Returns the columns that are no features."""
        return [str(c) for c in getattr(self, "ignore", None) or []] + self._other_columns()

    def _features(self, columns):
        left_out = self._left_out()
        return {k: v for k, v in columns.items() if k not in left_out}

    def _other_columns(self):
        """Returns the columns of the user and of the weight."""
        record = self.record or ""
        others = [record.removeprefix("user:")] if record.startswith("user:") else []
        return others + [w for w in [getattr(self, "weight", None)] if w]

    def _fit_table(self, X, y, output, resume):
        """Fits to a table; output describes the column that is predicted."""
        checked = self._check(without(X, self._left_out()), reset=True)
        check_consistent_length(X, y)
        columns = read_columns(X if is_table(X) else checked)
        features = self._features(columns)
        facts = Facts(self.bounds, self.categories, dates=getattr(self, "dates", None))
        if self.public_sample is not None:
            facts.add_sample(features if self._fits_publicly() else self._features(read_columns(_rows_of(self.public_sample))))
        schema = facts.schema(features)
        others = self._other_columns()
        for name in others:
            if name not in columns:
                raise SettingError(f"dptrain: X has no column {name!r}, which record or weight names")
        name, target = "y", read_column(y)
        while name in columns:
            name += "_"
        schema |= output(name, schema)
        sent = {**features, **{k: columns[k] for k in others}, name: target}
        self.feature_columns_ = list(features)
        return self._train(sent, schema, resume)

    def _fits_publicly(self):
        return isinstance(self.public_sample, str) and self.public_sample == FIT

    def _warn_about_public_rows(self):
        if self._fits_publicly():
            warnings.warn(
                "dptrain: public_sample='fit' takes limits, words and classes from the rows of fit, which reveals them: ε does not cover "
                "this; give bounds, categories and classes",
                PrivacyWarning,
                stacklevel=3,
            )

    def _answers(self, X):
        """Returns the program's answers for the rows of X as CSV rows, the header first."""
        check_is_fitted(self)
        columns = read_columns(self._check(without(X, self._left_out()), reset=False))
        missing = [name for name in self.feature_columns_ if name not in columns]
        if missing:
            raise ValueError(f"dptrain: X has no column {missing[0]!r}, which the model was trained on")
        parts = _arrow.write({name: columns[name] for name in self.feature_columns_})
        return list(csv.reader(io.StringIO(self.run_.predict(parts).decode("utf-8"), newline="")))

    def privacy_statement(self):
        """Returns the paragraph on privacy for a paper or a model card."""
        check_is_fitted(self)
        text = self.run_.statement()
        if self._fits_publicly():
            text += " Limits, words and classes were taken from the training rows, which were declared public for this; ε does not cover them."
        return text

    def save(self, folder):
        """Writes the files of the run into a folder, which the command line reads."""
        check_is_fitted(self)
        self.run_.write(folder)

    def _repr_html_(self):
        if hasattr(self, "report_"):
            return self.report_._repr_html_()
        return f"<pre>{self!r}</pre>"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


class Classifier(ClassifierMixin, _Estimator):
    """A private classifier for tables.

    Parameters
    ----------
    epsilon, delta : the budget. δ is by default the largest power of ten that is at most 1/(10·N).
    bounds : (low, high) for all columns of numbers, or a dict from columns to such pairs.
    categories : a dict from columns to their public words.
    classes : the public classes of y.
    model : the network, as for ``dptrain train --model``; "auto" chooses it from public numbers.
    record : the unit of privacy; "user:COLUMN" protects all rows of a user.
    out : a folder to keep the run in. By default its files are only in the estimator.
    public_sample : rows X, or (X, y), that are public; limits, words and classes follow from them.
        "fit" declares that those of the rows of ``fit`` are public.
    settings : the flags of ``dptrain train``, such as lot=512, epochs=20 or clip=0.5.
    """

    def __init__(
        self, epsilon=1.0, delta=None, bounds=None, categories=None, classes=None, model="auto", record=None, out=None,
        public_sample=None, **settings,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.model = model
        self.record = record
        self.out = out
        self.public_sample = public_sample
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(self, X, y, resume=None):
        """Trains on private rows. resume is the folder of an interrupted run to continue."""
        y = _checked_target(self, y)
        self.classes_ = self._find_classes(y)
        self._warn_about_public_rows()
        return self._fit_table(X, y, lambda name, _: {"label": name, "classes": self._class_names()}, resume)

    def _find_classes(self, y):
        if self.classes is not None:
            return np.asarray(list(self.classes))
        if self._fits_publicly():
            check_classification_targets(y)
            return distinct(y) if y.dtype.kind not in "OUS" else np.unique(y)
        if isinstance(self.public_sample, tuple):
            return distinct(read_column(self.public_sample[1]))
        raise SettingError(
            "dptrain: classes is missing: the classes of private rows would reveal that such rows exist; "
            "give classes=['low', 'high'], or public_sample=(X, y) with public rows"
        )

    def _class_names(self):
        names = [str(c) for c in self.classes_]
        if len(names) < 2:
            raise SettingError(f"dptrain: there is only one class, {names}; a classifier needs at least two classes")
        return names

    def predict_proba(self, X):
        """Returns the probability of each class of ``classes_`` for each row."""
        header, *rows = self._answers(X)
        first = header.index("probability") + 1
        return np.array([row[first:] for row in rows], dtype=np.float64)

    def predict(self, X):
        """Returns the most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]


class _Texts:
    """One or two columns of texts."""

    def __init__(self, columns):
        self.columns = list(columns)

    def __len__(self):
        return len(self.columns[0])


class TextClassifier(Classifier):
    """A private classifier for texts: X is a sequence of texts, or of pairs of texts.

    Hashed n-grams need no public vocabulary. The parameters are those of Classifier, without bounds
    and categories; settings such as tokens="bytes" and length=200 choose another conversion.
    model="hf:FOLDER" fine-tunes a public checkpoint with its own tokenizer. Pairs need one.
    """

    def __init__(self, epsilon=1.0, delta=None, classes=None, model="auto", record=None, out=None, public_sample=None, **settings):
        super().__init__(epsilon, delta, None, None, classes, model, record, out, public_sample, **settings)
        del self.bounds, self.categories

    def fit(self, X, y, resume=None):
        """Trains on private texts, or on pairs such as [("a premise", "a hypothesis"), …]."""
        y = _checked_target(self, y)
        texts = self._texts(X)
        check_consistent_length(texts, y)
        self.classes_ = self._find_classes(y)
        self._warn_about_public_rows()
        columns = self._columns(texts)
        self.feature_columns_ = list(columns)
        schema = {"label": "y", "classes": self._class_names(), **dict(zip(("text", "text-pair"), columns))}
        self.n_features_in_ = len(columns)
        return self._train({**columns, "y": read_column(y)}, schema, resume)

    def _answers(self, X):
        check_is_fitted(self)
        columns = self._columns(self._texts(X))
        if list(columns) != self.feature_columns_:
            wanted = ["texts", "pairs of texts"][len(self.feature_columns_) - 1]
            raise ValueError(f"dptrain: the model was trained on {wanted}, and X has {len(columns)} for each row")
        parts = _arrow.write(columns)
        return list(csv.reader(io.StringIO(self.run_.predict(parts).decode("utf-8"), newline="")))

    def _texts(self, X):
        """Returns the texts of a sequence, a column, or a table with one column; of pairs, the first and the second texts."""
        if isinstance(X, str):
            raise ValueError("dptrain: X is one text; give a list of texts")
        if is_table(X):
            columns = read_columns(X)
            if len(columns) not in (1, 2):
                raise ValueError(f"dptrain: X has {len(columns)} columns; give one column of texts, or two of pairs")
            return _Texts(columns.values())
        rows = X if isinstance(X, (list, tuple)) else np.asarray(X)
        widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) == 1 else 1 for row in rows}
        if widths == {2}:
            return _Texts(read_column([row[i] for row in rows]) for i in range(2))
        if widths - {1}:
            raise ValueError("dptrain: some rows of X are pairs of texts, and others are not; give each row as ('first text', 'second text')")
        return _Texts([read_column(X)])

    @staticmethod
    def _columns(texts):
        """Returns the columns that the program reads."""
        return {name: _as_words(column) for name, column in zip(("text", "pair"), texts.columns)}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class LanguageModel(_Estimator):
    """A private language model: a decoder learns the next ids of texts, an encoder with masked=0.15 their masked ids.

    Parameters
    ----------
    epsilon, delta, record, out : as for Classifier.
    model : "hf:FOLDER,lora=8" fine-tunes a public checkpoint with its own tokenizer; "transformer" or "lstm:64"
        with tokens="bytes" learns from the private texts alone.
    settings : the flags of ``dptrain train``, such as length=256, the ids of an example; masked=0.15, the share of
        masked ids; and, with record="user:COLUMN", pack=True, which joins the texts of a user in one example.

    X is a sequence of texts, or a table with a column of texts and those that record and weight name.
    """

    def __init__(self, epsilon=1.0, delta=None, model="auto", record=None, out=None, **settings):
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.record = record
        self.out = out
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(self, X, y=None, resume=None):
        """Trains on private texts. resume is the folder of an interrupted run to continue."""
        text, columns = self._columns(X)
        missing = [name for name in self._other_columns() if name not in columns]
        if missing:
            raise SettingError(f"dptrain: X has no column {missing[0]!r}, which record or weight names; give a table with it")
        self.n_features_in_, self.text_column_ = 1, text
        return self._train(columns, {"text": text}, resume)

    def _settings(self):
        settings = super()._settings()
        if not settings.get("masked"):
            settings["next"] = True
        return settings

    def _columns(self, X):
        """Returns the name of the column of texts, and the columns that the program reads."""
        if isinstance(X, str):
            raise ValueError("dptrain: X is one text; give a list of texts")
        if not is_table(X):
            return "text", {"text": _as_words(read_column(X))}
        others = self._other_columns()
        columns = {name: column for name, column in read_columns(X).items() if name not in self._ignored()}
        texts = [name for name in columns if name not in others]
        if len(texts) != 1:
            raise ValueError(f"dptrain: X has {len(texts)} columns of texts, {texts}; give one, and name others in ignore")
        return texts[0], {name: _as_words(column) if name == texts[0] else column for name, column in columns.items()}

    def _ignored(self):
        return [str(c) for c in getattr(self, "ignore", None) or []]

    def perplexity(self, X):
        """Returns exp of the mean loss of an id of X, or of a masked id. It is a function of X: X is public if it is."""
        return self._evaluate(X)["perplexity"]

    def score(self, X, y=None):
        """Returns minus the logarithm of perplexity(X): the mean log-likelihood of an id."""
        return -float(np.log(self.perplexity(X)))

    def _evaluate(self, X):
        check_is_fitted(self)
        text, columns = self._columns(X)
        columns[self.text_column_] = columns.pop(text)
        return self.run_.evaluate(_arrow.write(columns))

    def generate(self, prompt="", number=1, **settings):
        """Returns texts that begin with the prompt. settings are the flags of ``dptrain generate``: length, temperature, top_p, stop, seed."""
        check_is_fitted(self)
        return self.run_.generate({"prompt": prompt, "number": number, **settings})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags


class Regressor(RegressorMixin, _Estimator):
    """A private regressor for tables.

    The parameters are those of Classifier. target_bounds, the public limits of y, replace classes:
    predictions stay within them.
    """

    def __init__(
        self, epsilon=1.0, delta=None, bounds=None, categories=None, target_bounds=None, model="auto", record=None, out=None,
        public_sample=None, **settings,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.model = model
        self.record = record
        self.out = out
        self.public_sample = public_sample
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(self, X, y, resume=None):
        """Trains on private rows. resume is the folder of an interrupted run to continue."""
        y = _checked_target(self, y)
        bounds = self._find_bounds(y)
        self._warn_about_public_rows()
        return self._fit_table(X, y, lambda name, schema: {"target": name, "bounds": {**schema["bounds"], name: bounds}}, resume)

    def _find_bounds(self, y):
        if self.target_bounds is not None:
            return pair(self.target_bounds, "y")
        if self._fits_publicly():
            return list(limits(check_array(y, ensure_2d=False, dtype=np.float64)))
        if isinstance(self.public_sample, tuple):
            return list(limits(read_column(self.public_sample[1])))
        raise SettingError(
            "dptrain: target_bounds is missing: limits that are taken from private rows reveal them; "
            "give target_bounds=(low, high), or public_sample=(X, y) with public rows"
        )

    def predict(self, X):
        """Returns a number for each row."""
        return np.array([row[0] for row in self._answers(X)[1:]], dtype=np.float64)


def _checked_target(estimator, y):
    if y is None:
        raise ValueError(f"dptrain: {type(estimator).__name__} requires y to be passed, but the target y is None")
    if hasattr(y, "combine_chunks"):
        y = y.to_numpy()
    return column_or_1d(y, warn=True)


def _absolute(model):
    """Returns a network with the whole path of its checkpoint, which predict reads from any folder."""
    if not isinstance(model, str) or not model.startswith("hf:"):
        return model
    return "hf:" + os.path.join(os.getcwd(), model[len("hf:") :])


def _rows_of(sample):
    return sample[0] if isinstance(sample, tuple) else sample


def _as_words(column):
    if isinstance(column, _arrow.Words):
        return column
    return read_column([str(v) for v in column])
