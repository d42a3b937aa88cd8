"""Writes kinds.gguf, a tensor of each type, and kinds.json, what the Python package gguf dequantizes.

Usage: python oracle.py (needs gguf)
"""
import json
import os

import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

HERE = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(HERE, "kinds.gguf")
w = GGUFWriter(path, "test")
w.add_uint8("u8", 200)
w.add_int16("i16", -3)
w.add_float32("f32", 0.5)
w.add_bool("yes", True)
w.add_array("words", ["a", "", "bc"])
w.add_array("numbers", [1, -2])
r = np.random.default_rng(1)
for kind in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1):
    x = r.normal(size=(3, 64)).astype(np.float32) * np.array([[1], [1e-3], [300]], dtype=np.float32)
    w.add_tensor(kind.name, quantize(x, kind), raw_dtype=kind)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
expected = {t.name: dequantize(t.data, t.tensor_type).reshape(-1).astype(np.float64).tolist() for t in GGUFReader(path).tensors}
with open(os.path.join(HERE, "kinds.json"), "w") as f:
    json.dump(expected, f)
