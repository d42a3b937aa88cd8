"""Answer as a network of PyTorch with an exported state_dict would, and compare.

Usage: check.py MODEL=FOLDER...   (needs safetensors and numpy)

Each folder holds model.safetensors and answers.safetensors, which has features and
output. The layers are
written in float64 from PyTorch's documentation of torch.nn.
"""

import sys

import numpy as np
from safetensors.numpy import load_file


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def conv2d(w, name, x, stride=1, padding=0):
    kernel, bias = w[name + ".weight"], w[name + ".bias"]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    view = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("bchwij,ocij->bohw", view, kernel) + bias[:, None, None]


def max_pool(x, size, stride):
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride].max((4, 5))


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(w, x):
    h = c = np.zeros((len(x), w["lstm.weight_hh_l0"].shape[1]))
    states = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ w["lstm.weight_ih_l0"].T + w["lstm.bias_ih_l0"]
        gates = gates + h @ w["lstm.weight_hh_l0"].T + w["lstm.bias_hh_l0"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states, 1)


def gru(w, x):
    h = np.zeros((len(x), w["gru.weight_hh_l0"].shape[1]))
    states = []
    for t in range(x.shape[1]):
        ri, zi, ni = np.split(x[:, t] @ w["gru.weight_ih_l0"].T + w["gru.bias_ih_l0"], 3, axis=1)
        rh, zh, nh = np.split(h @ w["gru.weight_hh_l0"].T + w["gru.bias_hh_l0"], 3, axis=1)
        r, z = sigmoid(ri + rh), sigmoid(zi + zh)
        h = (1 - z) * np.tanh(ni + r * nh) + z * h
        states.append(h)
    return np.stack(states, 1)


def embedded(w, x):
    return w["embedding.weight"][x.astype(int)]


def mnist_cnn(w, x):
    x = max_pool(relu(conv2d(w, "conv1", x, stride=2, padding=3)), 2, 1)
    x = max_pool(relu(conv2d(w, "conv2", x, stride=2)), 2, 1)
    return linear(w, "fc2", relu(linear(w, "fc1", x.reshape(len(x), -1))))


networks = {
    "mlp": lambda w, x: linear(w, "fc2", relu(linear(w, "fc1", x.reshape(len(x), -1)))),
    "mnist-cnn": mnist_cnn,
    "lstm": lambda w, x: linear(w, "fc", lstm(w, embedded(w, x)).mean(1)),
    "gru": lambda w, x: linear(w, "fc", gru(w, embedded(w, x)).mean(1)),
}

worst = 0.0
for pair in sys.argv[1:]:
    name, folder = pair.split("=", 1)
    w = {k: v.astype(np.float64) for k, v in load_file(folder + "/model.safetensors").items()}
    answers = load_file(folder + "/answers.safetensors")
    got = networks[name](w, answers["features"].astype(np.float64))
    want = answers["output"]
    assert got.shape == want.shape, (name, got.shape, want.shape)
    apart = float(np.max(np.abs(got - want)))
    worst = max(worst, apart)
    assert apart <= 1e-5, (name, apart)
print(f"{len(sys.argv) - 1} networks, largest difference {worst:.2g}")
