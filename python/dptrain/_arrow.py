"""Writes a table as an Arrow IPC file, which the program reads from a pipe.

NumPy is enough for this, so pandas, Polars and pyarrow stay optional. A column is one of two
types: numbers, which are written as they lie in memory, or words, which are positions in a list of
distinct texts. An Arrow file is a sequence of messages and a footer with their places; their
metadata are FlatBuffers. The formats are those of the Arrow columnar specification, version 5
(Message.fbs, Schema.fbs, File.fbs).
"""

import struct

import numpy as np

BATCH_ROWS = 1 << 16

_MAGIC = b"ARROW1"
_VERSION_5 = ("h", 4)
_INT, _FLOAT, _LARGE_UTF8 = 2, 3, 20  # members of the union Type
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3  # members of the union MessageHeader
_FLOAT_PRECISION = {2: 0, 4: 1, 8: 2}  # by bytes


class Words:
    """A column of texts: the text of row i is words[codes[i]]."""

    def __init__(self, codes, words):
        self.codes = np.ascontiguousarray(codes, dtype=np.int32)
        self.words = words

    def __len__(self):
        return len(self.codes)


def write(columns):
    """Yields the bytes of an Arrow file, part by part.

    columns maps names to arrays of numbers or to Words; all have one length.
    """
    schema = _schema(columns)
    at = 0
    blocks = {_DICTIONARY_BATCH: [], _RECORD_BATCH: []}

    def count(parts):
        nonlocal at
        for part in parts:
            at += len(part)
            yield part

    yield from count([_MAGIC + b"\0\0"])
    yield from count(_message(_SCHEMA, schema, [])[1])
    for kind, header, buffers in _batches(columns):
        start = at
        metadata, parts = _message(kind, header, buffers)
        yield from count(parts)
        blocks[kind].append(struct.pack("<qi4xq", start, metadata, at - start - metadata))
    footer = _flatbuffer({0: _VERSION_5, 1: schema, 2: blocks[_DICTIONARY_BATCH], 3: blocks[_RECORD_BATCH]})
    yield b"\xff\xff\xff\xff\0\0\0\0" + footer + struct.pack("<i", len(footer)) + _MAGIC


def _batches(columns):
    for k, column in enumerate(columns.values()):
        if isinstance(column, Words):
            header, buffers = _record_batch([_texts(column.words)])
            yield _DICTIONARY_BATCH, {0: ("q", k), 1: header}, buffers
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, BATCH_ROWS):
        part = slice(start, min(start + BATCH_ROWS, rows))
        arrays = [c.codes if isinstance(c, Words) else c for c in columns.values()]
        header, buffers = _record_batch([(part.stop - start, [_little_endian(a[part])]) for a in arrays])
        yield _RECORD_BATCH, header, buffers


def _texts(words):
    encoded = [w.encode("utf-8", "replace") for w in words]
    ends = np.zeros(len(encoded) + 1, dtype="<i8")
    np.cumsum([len(e) for e in encoded], out=ends[1:])
    return len(encoded), [ends, b"".join(encoded)]


def _little_endian(array):
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _record_batch(columns):
    """Returns the header of a batch and its buffers. No column has a bitmap of missing values."""
    nodes, places, buffers, at = [], [], [], 0
    for length, values in columns:
        nodes.append(struct.pack("<qq", length, 0))
        places.append(struct.pack("<qq", at, 0))
        for value in values:
            view = memoryview(value).cast("B") if len(value) else b""
            places.append(struct.pack("<qq", at, len(view)))
            buffers += [view, bytes(-len(view) % 8)]
            at += len(view) + -len(view) % 8
    return {0: ("q", columns[0][0]), 1: nodes, 2: places}, buffers


def _message(kind, header, buffers):
    """Returns the length of a message's metadata and the parts of the message."""
    body = sum(len(b) for b in buffers)
    metadata = _flatbuffer({0: _VERSION_5, 1: ("B", kind), 2: header, 3: ("q", body)})
    return 8 + len(metadata), [b"\xff\xff\xff\xff" + struct.pack("<i", len(metadata)) + metadata, *buffers]


def _schema(columns):
    fields = []
    for k, (name, column) in enumerate(columns.items()):
        if isinstance(column, Words):
            encoding = {0: ("q", k), 1: _integer(4, signed=True)}
            fields.append({0: name, 2: ("B", _LARGE_UTF8), 3: {}, 4: encoding, 5: []})
            continue
        size = column.dtype.itemsize
        if column.dtype.kind == "f":
            fields.append({0: name, 2: ("B", _FLOAT), 3: {0: ("h", _FLOAT_PRECISION[size])}, 5: []})
        else:
            fields.append({0: name, 2: ("B", _INT), 3: _integer(size, signed=column.dtype.kind == "i"), 5: []})
    return {0: ("h", 0), 1: fields}


def _integer(size, signed):
    return {0: ("i", 8 * size), 1: ("?", signed)}


def _flatbuffer(root):
    """Serializes a table, padded to a multiple of 8 bytes.

    A table is a dict from slots to members: a pair of a struct format and a number, a text, a
    table, or a list of tables or of packed structs of 8-byte alignment.
    """
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _append(out, root))
    out += bytes(-len(out) % 8)
    return bytes(out)


def _append(out, value):
    """Appends a value and what it refers to, and returns its position."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        out += bytes(-len(out) % 4)
        at = len(out)
        out += struct.pack("<I", len(text)) + text + b"\0"
        return at
    if isinstance(value, list):
        return _append_vector(out, value)
    return _append_table(out, value)


def _append_vector(out, items):
    out += bytes((4 - len(out)) % 8)  # the items, after the length, are aligned to 8 bytes
    at = len(out)
    out += struct.pack("<I", len(items))
    if not items or isinstance(items[0], bytes):
        out += b"".join(items)
        return at
    out += bytes(4 * len(items))
    for i, item in enumerate(items):
        place = at + 4 + 4 * i
        struct.pack_into("<I", out, place, _append(out, item) - place)
    return at


def _append_table(out, members):
    slots, size, offsets = max(members, default=-1) + 1, 4, {}
    for slot, member in members.items():
        width = struct.calcsize(member[0]) if isinstance(member, tuple) else 4
        size += -size % width
        offsets[slot] = size
        size += width
    out += bytes(-(len(out) + 4 + 2 * slots) % 8)  # the table, after its list of offsets, is aligned to 8 bytes
    out += struct.pack(f"<HH{slots}H", 4 + 2 * slots, size, *(offsets.get(slot, 0) for slot in range(slots)))
    at = len(out)
    out += bytes(size)
    struct.pack_into("<i", out, at, 4 + 2 * slots)
    for slot, member in members.items():
        place = at + offsets[slot]
        if isinstance(member, tuple):
            struct.pack_into("<" + member[0], out, place, member[1])
        else:
            struct.pack_into("<I", out, place, _append(out, member) - place)
    return at
