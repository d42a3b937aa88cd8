"""Reads and writes weights as safetensors: the length of a JSON header, the header, and the numbers.

The format is that of https://github.com/huggingface/safetensors. All tensors are float32.
"""

import json
import struct

import numpy as np


def write(path, tensors, metadata):
    """Writes a dict from names to arrays."""
    header, at = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + 4 * array.size]}
        at += 4 * array.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, dtype="<f4").tobytes())


def read(path):
    """Returns a dict from names to arrays."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        start, end = (8 + length + offset for offset in t["data_offsets"])
        tensors[name] = np.frombuffer(content[start:end], dtype="<f4").reshape(t["shape"])
    return tensors
