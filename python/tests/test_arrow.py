"""The Arrow files that the package writes, read by pyarrow as an independent oracle."""

import io

import numpy as np
import pyarrow as pa
import pytest

from dptrain._arrow import BATCH_ROWS, Words, write


def read(columns):
    return pa.ipc.open_file(io.BytesIO(b"".join(write(columns)))).read_all()


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"])
@pytest.mark.parametrize("rows", [1, 3, 8, 1000])
def test_numbers_of_each_type(kind, rows):
    values = (np.arange(rows) % 100).astype(kind)
    table = read({"values": values})
    table.validate(full=True)
    assert table.column("values").to_numpy().tolist() == values.tolist()
    assert str(table.schema.field("values").type) == str(pa.from_numpy_dtype(values.dtype.newbyteorder("=")))


def test_special_numbers():
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    read_back = read({"values": values}).column("values").to_numpy()
    assert read_back.tobytes() == values.tobytes()


@pytest.mark.parametrize("words", [["a"], ["", "ß", "日本語", "a\nb,\"c\"", "x" * 100_000], [str(i) for i in range(5000)]])
def test_words(words):
    codes = np.random.default_rng(1).integers(0, len(words), 12_345)
    table = read({"words": Words(codes, words)})
    table.validate(full=True)
    assert table.column("words").to_pylist() == [words[c] for c in codes]


@pytest.mark.parametrize("rows", [BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1, 3 * BATCH_ROWS + 5])
def test_several_batches_and_columns(rows):
    numbers = np.random.default_rng(2).normal(size=rows)
    columns = {"n": numbers, "w": Words(np.arange(rows) % 3, ["a", "b", ""]), "ünï": np.arange(rows, dtype=np.uint16), "": numbers}
    table = read(columns)
    table.validate(full=True)
    assert table.column_names == list(columns)
    assert np.array_equal(table.column("n").to_numpy(), numbers)
    assert table.column("w").to_pylist()[-3:] == [["a", "b", ""][i % 3] for i in range(rows - 3, rows)]
    assert table.column("ünï").to_numpy()[-1] == (rows - 1) % 65536


def test_strided_arrays_are_copied():
    values = np.arange(20.0).reshape(10, 2)
    assert read({"second": values[:, 1]}).column("second").to_pylist() == values[:, 1].tolist()
