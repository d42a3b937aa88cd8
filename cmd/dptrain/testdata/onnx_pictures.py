"""Run MODEL with onnxruntime on the bytes of pictures, and compare its answers with those of predict --scores.

Usage: onnx_pictures.py MODEL BYTES ANSWERS.csv   (needs numpy, onnx, onnxruntime)
"""

import csv
import sys

import numpy as np
import onnx
import onnxruntime

model, pixels, answers = sys.argv[1:]
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
(feature,) = session.get_inputs()
assert feature.type == "tensor(uint8)", feature.type
pictures = np.fromfile(pixels, np.uint8).reshape(-1, *feature.shape[1:])
answers = list(csv.DictReader(open(answers, newline="")))
assert len(pictures) == len(answers) > 0, (len(pictures), len(answers))
for some in (pictures, pictures[:1]):
    classes, probabilities, output = session.run(None, {feature.name: some})
    exact = np.exp(output.astype(np.float64))
    assert np.allclose(probabilities, exact / exact.sum(1, keepdims=True), atol=1e-6)
    for k, answer in enumerate(answers[: len(some)]):
        assert classes[k] == answer["class"], (k, classes[k], answer)
        want = np.array([float(v) for name, v in answer.items() if name.startswith("probability:")])
        # A difference of two logits is that of the logarithms of their probabilities.
        apart = np.abs(np.diff(output[k].astype(np.float64)) - np.diff(np.log(want))).max()
        assert np.abs(probabilities[k] - want).max() <= 1e-6 and apart <= 1e-4, (k, output[k], answer)
print(len(answers), "pictures")
