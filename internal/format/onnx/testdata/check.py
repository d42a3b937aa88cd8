"""Run each folder's model.onnx on the features of answers.safetensors and compare
with its output.

Usage: check.py FOLDER...   (needs onnx, onnxruntime, safetensors, numpy)
"""

import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

worst = 0.0
for folder in sys.argv[1:]:
    onnx.checker.check_model(folder + "/model.onnx", full_check=True)
    session = onnxruntime.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])
    feature = session.get_inputs()[0]
    answers = load_file(folder + "/answers.safetensors")
    x, want = answers["features"], answers["output"]
    if feature.type == "tensor(int64)":
        x = x.astype(np.int64)
    if feature.type == "tensor(uint8)":
        x = x.astype(np.uint8)
    for n in (len(x), 1):
        got = session.run(["output"], {feature.name: x[:n]})[0]
        assert got.shape == want[:n].shape, (folder, got.shape, want.shape)
        apart = float(np.max(np.abs(got - want[:n])))
        worst = max(worst, apart)
        assert apart <= 1e-5 * max(1, float(np.max(np.abs(want)))), (folder, n, apart)
print(f"{len(sys.argv) - 1} models, largest difference {worst:.2g}")
