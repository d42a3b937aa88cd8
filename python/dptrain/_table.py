"""Tables of pandas, Polars, Arrow and NumPy, column by column.

No library but NumPy is imported here: a table is recognized by its methods.
"""

import numpy as np

from ._arrow import Words


def column_names(table):
    """Returns the names of a table's columns; x0, x1, … for an array."""
    if hasattr(table, "column_names"):  # Arrow
        return list(table.column_names)
    if hasattr(table, "columns"):  # pandas, Polars
        return [str(name) for name in table.columns]
    return [f"x{i}" for i in range(np.shape(table)[1])]


def is_table(value):
    """Reports whether a value has named columns."""
    return hasattr(value, "columns") or hasattr(value, "column_names")


def without(table, names):
    """Returns a table without some columns, which need not exist."""
    present = [name for name in names if is_table(table) and name in column_names(table)]
    if not present:
        return table
    if hasattr(table, "iloc"):
        return table.drop(columns=present)
    return table.drop(present)


def read_columns(table):
    """Returns the columns of a table as a dict from names to arrays of numbers or to Words."""
    names = column_names(table)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"dptrain: X has two columns with the name {twice!r}; rename one")
    if hasattr(table, "column_names"):
        return {name: read_column(table.column(i)) for i, name in enumerate(names)}
    if hasattr(table, "iloc"):
        return {name: read_column(table.iloc[:, i]) for i, name in enumerate(names)}
    if hasattr(table, "get_columns"):
        return {name: read_column(c) for name, c in zip(names, table.get_columns())}
    table = np.asarray(table)
    return {name: read_column(table[:, i]) for i, name in enumerate(names)}


def read_column(values):
    """Converts a column to an array of numbers or to Words. The word for a missing value is "".

    A value that cannot be converted never causes an error, because the error would reveal it: it
    becomes a word, and the program makes its record blank.
    """
    if hasattr(values, "combine_chunks"):
        values = _from_arrow(values)
    elif hasattr(values, "get_column") or hasattr(values, "is_duplicated") and hasattr(values, "to_physical"):
        values = _from_polars(values)
    elif hasattr(values, "factorize"):
        return _from_pandas(values)
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=_object_if_mixed(values))
    if array.ndim != 1:
        array = array.reshape(len(array), -1)[:, 0]
    if array.dtype.kind in "iuf" and array.dtype.itemsize <= 8:
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        return Words(array.view(np.uint8), ["False", "True"])
    if array.dtype.kind == "M":
        return _words_of(_date_texts(array))
    return _words_of(array.tolist())


def _object_if_mixed(values):
    """NumPy would turn the numbers of a list with texts into texts, and None into the text None."""
    if isinstance(values, (list, tuple)) and not all(isinstance(v, (int, float)) for v in values):
        return object
    return None


def _from_pandas(series):
    """pandas finds distinct words faster than a loop in Python."""
    kind = getattr(series.dtype, "kind", "O")
    if kind == "M":
        return _words_of(_date_texts(series.to_numpy(dtype="datetime64[ns]")))
    if kind in "iuf":
        if isinstance(series.dtype, np.dtype):
            return read_column(series.to_numpy())
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, words = series.factorize()
    return Words(np.where(codes < 0, len(words), codes), [str(w) for w in words] + [""])


def _from_polars(series):
    if series.dtype.is_numeric() and not series.dtype.is_decimal():
        return series.to_numpy()
    return np.array(series.to_list() + [None], dtype=object)[:-1]


def _from_arrow(chunks):
    kind = str(chunks.type)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return chunks.to_numpy()
    return np.array(chunks.to_pylist() + [None], dtype=object)[:-1]


def _date_texts(array):
    """ISO 8601 texts; "" for a missing date."""
    texts = np.datetime_as_string(array, unit="s").tolist()
    return ["" if t == "NaT" else t.replace("T", " ") for t in texts]


def _words_of(values):
    places = {"": 0}
    codes = np.fromiter((places.setdefault(_text(v), len(places)) for v in values), dtype=np.int32, count=len(values))
    return Words(codes, list(places))


def _text(value):
    return "" if value is None or value != value else str(value)
