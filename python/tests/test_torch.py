"""dptrain.torch, on the installed package. It is skipped without torch."""

import json
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dptrain  # noqa: E402
import dptrain.torch  # noqa: E402
from dptrain import _program, _safetensors  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Residual(nn.Module):
    """Convolutions with strides, norms, a residual sum and functions of torch.nn.functional."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(inplace=True))
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2))
        self.down = nn.Conv2d(8, 12, 3, stride=2)
        self.pool, self.drop, self.head = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.1), nn.Linear(12, 4)

    def forward(self, x):
        x = self.stem(x)
        x = F.gelu(x + self.block(x))
        x = F.max_pool2d(torch.tanh(self.down(x)), 2)
        return self.head(self.drop(self.pool(x).flatten(1)))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)
        self.hidden, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, ids):
        x = self.norm(self.table(ids))
        return self.head((x + torch.sigmoid(self.hidden(x))).mean(1))


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.line, self.head = nn.Conv1d(2, 6, 3, stride=2), nn.Linear(5, 5), nn.Linear(9, 3)

    def forward(self, x):
        x = F.leaky_relu(self.line(self.conv(x.view(x.size(0), 2, -1))))
        x = F.avg_pool2d(F.softplus(x).unsqueeze(1), 3, 2, padding=1).squeeze(1)
        return self.head(F.elu(x).reshape(len(x), -1))


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 2))


MODULES = {
    "mlp": (mlp, lambda g: torch.randn(20, 6, generator=g), 2),
    "residual": (Residual, lambda g: torch.randn(20, 1, 12, 12, generator=g), 4),
    "text": (Text, lambda g: torch.randint(20, (20, 7), generator=g), 3),
    "views": (Views, lambda g: torch.randn(20, 22, generator=g), 3),
    "linear": (lambda: nn.Linear(5, 3), lambda g: torch.randn(20, 5, generator=g), 3),
}


def outputs_of_the_program(module, x, classes, folder):
    """Returns the logits that the program computes with the weights of the module, from a run of 1 step
    that changes nothing: its learning rate is zero as a float32."""
    y = np.arange(len(x)) % classes
    run = dptrain.torch.train(module, (x, torch.from_numpy(y)), noise=1, steps=1, lot=10, lr=1e-30, optimizer="sgd", out=str(folder))
    np.save(folder / "x.npy", x.numpy())
    lines = _program.run(["predict", str(folder), "--data", str(folder / "x.npy"), "--scores", "--quiet"]).decode().splitlines()[1:]
    return run, np.array([[float(v) for v in line.split(",")[2:]] for line in lines])


@pytest.mark.parametrize("name", MODULES)
def test_the_program_computes_what_torch_computes(name, tmp_path):
    make, draw, classes = MODULES[name]
    torch.manual_seed(1)
    module = make()
    x = draw(torch.Generator().manual_seed(2))
    before = {n: p.clone() for n, p in module.state_dict().items()}
    _, got = outputs_of_the_program(module, x, classes, tmp_path)
    for n, p in module.state_dict().items():
        assert torch.allclose(p, before[n], rtol=0, atol=1e-25), n  # the weights come back to their places
    module.eval()
    with torch.no_grad():
        want = torch.softmax(module(x), 1).numpy()
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_training_returns_weights_that_predict(tmp_path):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(4000, 6, generator=g)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
    torch.manual_seed(4)
    module = mlp()
    run = dptrain.torch.train(
        module, torch.utils.data.TensorDataset(x[:3000], y[:3000]), epsilon=8, test=(x[3000:], y[3000:]), lot=300, epochs=30, lr=2, clip=1,
    )  # fmt: skip
    with torch.no_grad():
        accuracy = (module.eval()(x[3000:]).argmax(1) == y[3000:]).float().mean().item()
    assert accuracy > 0.8
    assert abs(accuracy - run.report["test_accuracy"]) < 0.002  # a tie may be rounded in another way
    assert 7.9 < run.epsilon <= 8 and run.ledger.epsilon(delta=run.delta) == pytest.approx(run.epsilon, rel=1e-6)
    assert "ε" in run.privacy_statement() and "<table>" in run._repr_html_()
    run.save(str(tmp_path / "kept"))
    assert json.loads((tmp_path / "kept" / "model.json").read_text())["model"].startswith("layers:")


class Line(nn.Module):
    """Returns one number for each example, without an axis of its own."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(3, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.hidden(x))).squeeze(-1)


@pytest.mark.parametrize("axis", [False, True])
def test_regression_returns_a_module_that_predicts(axis, tmp_path):
    g = torch.Generator().manual_seed(5)
    x = torch.randn(4000, 3, generator=g)
    y = 30 + 4 * x[:, 0] - 3 * x[:, 1]
    torch.manual_seed(6)
    module = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)) if axis else Line()
    targets = y[:3000, None] if axis else y[:3000].double()
    run = dptrain.torch.train(
        module, (x[:3000], targets), epsilon=8, target_bounds=(10, 50), test=(x[3000:], y[3000:]), lot=300, epochs=30, lr=0.3, out=str(tmp_path),
    )  # fmt: skip
    with torch.no_grad():
        predicted = run.in_units(module.eval()(x[3000:])).reshape(-1)
    error = (predicted - y[3000:].clamp(10, 50)).square().mean().sqrt().item()
    assert error < 2 < y.std().item() / 2  # the standard deviation of y is 5
    assert error == pytest.approx(run.report["test_rmse"], rel=1e-4)
    np.save(tmp_path / "x.npy", x[3000:3020].numpy())
    lines = _program.run(["predict", str(tmp_path), "--data", str(tmp_path / "x.npy"), "--quiet"]).decode().splitlines()[1:]
    np.testing.assert_allclose([float(v) for v in lines], predicted[:20].numpy(), atol=1e-3)


def test_predictions_stay_within_the_bounds():
    run = dptrain.torch.train(nn.Linear(3, 1), (torch.randn(100, 3), torch.zeros(100)), target_bounds=(-1, 3), noise=1, steps=1, lot=10)
    assert run.in_units(torch.tensor([-5.0, -1.0, 0.0, 0.5, 7.0])).tolist() == [-1, -1, 1, 2, 3]


@pytest.mark.parametrize(
    "module, y, bounds, want",
    [
        (nn.Linear(6, 2), torch.randn(30), (0, 1), "with target_bounds it must return one"),
        (nn.Linear(6, 1), torch.randn(30, 2), (0, 1), "one number for each example"),
        (nn.Linear(6, 1), torch.randn(30), (1, 1), "the lower one must be less"),
        (nn.Linear(6, 1), torch.randn(30), None, "target_bounds=(low, high)"),
        (nn.Linear(6, 1), torch.arange(30), None, "a regression needs target_bounds"),
    ],
)
def test_regression_errors(module, y, bounds, want):
    with pytest.raises(dptrain.SettingError) as error:
        dptrain.torch.train(module, (torch.randn(30, 6), y), epsilon=1, target_bounds=bounds)
    assert want in str(error.value) and "\n" not in str(error.value)


def test_frozen_parameters_stay(tmp_path):
    x, y = torch.randn(200, 6), torch.arange(200) % 2
    module = mlp()
    module[0].requires_grad_(False)
    first, last = module[0].weight.clone(), module[3].weight.clone()
    dptrain.torch.train(module, (x, y), epsilon=5, lot=50, epochs=2)
    assert torch.equal(module[0].weight, first) and not torch.equal(module[3].weight, last)


class Returns(nn.Module):
    def __init__(self, forward, **layers):
        super().__init__()
        self.layers, self._forward = nn.ModuleDict(layers), forward

    def forward(self, x):
        return self._forward(self.layers, x)


UNSUPPORTED = {
    "batch norm": (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "GroupNorm"),
    "softmax": (nn.Sequential(nn.Linear(6, 2), nn.LogSoftmax(1)), "log_softmax of 1 is not supported: return the logits"),
    "operation": (Returns(lambda m, x: torch.sin(m["fc"](x)), fc=nn.Linear(6, 2)), "the operation sin"),
    "mixes": (Returns(lambda m, x: m["fc"](x).sum(0, keepdim=True), fc=nn.Linear(6, 2)), "mixes them"),
    "twice": (Returns(lambda m, x: m["b"](torch.relu(m["a"](torch.relu(m["a"](x))))), a=nn.Linear(6, 6), b=nn.Linear(6, 2)), "layers.a is used twice"),
    "epsilon": (nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4, eps=1e-3), nn.Linear(4, 2)), "eps is 0.001"),
    "gelu": (nn.Sequential(nn.Linear(6, 4), nn.GELU("tanh"), nn.Linear(4, 2)), "the operation gelu"),
    "branch": (Returns(lambda m, x: m["fc"](x) if x.sum() > 0 else x, fc=nn.Linear(6, 2)), "torch.export cannot record"),
    "unused": (Returns(lambda m, x: m["fc"](x), fc=nn.Linear(6, 2), other=nn.Linear(2, 2)), "does not use the parameter layers.other"),
    "one output": (nn.Linear(6, 1), "one for each class"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operations_are_named_in_one_line(name):
    module, want = UNSUPPORTED[name]
    with pytest.raises(dptrain.SettingError) as error:
        dptrain.torch.train(module, (torch.randn(30, 6), torch.arange(30) % 2), epsilon=1)
    assert want in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "dataset, want",
    [
        ((torch.randint(255, (30, 6), dtype=torch.uint8), torch.arange(30) % 2), "X.float() / 255"),
        ((torch.randn(30, 6), torch.randn(30)), "one class for each example"),
        ((torch.randn(30, 6), torch.arange(29)), "one value for each example"),
        (torch.randn(30, 6), "a pair (X, y)"),
    ],
)
def test_data_errors(dataset, want):
    with pytest.raises(dptrain.SettingError) as error:
        dptrain.torch.train(mlp(), dataset, epsilon=1)
    assert want in str(error.value)


def test_settings_of_other_libraries_are_named():
    with pytest.raises(dptrain.SettingError, match="did you mean clip"):
        dptrain.torch.train(mlp(), (torch.randn(30, 6), torch.arange(30) % 2), max_grad_norm=1)


def test_weights_file_is_that_of_safetensors(tmp_path):
    tensors = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([7])}
    _safetensors.write(tmp_path / "w", tensors, {"format": "pt"})
    back = _safetensors.read(tmp_path / "w")
    assert all(np.array_equal(back[n], t) and back[n].shape == t.shape for n, t in tensors.items())


def test_the_private_rows_are_in_no_file(tmp_path):
    x, y = torch.randn(100, 6), torch.arange(100) % 2
    x[7, 3] = 0.123456789
    dptrain.torch.train(mlp(), (x, y), epsilon=1, lot=20, epochs=1, out=str(tmp_path / "run"))
    needle = np.float32(0.123456789).tobytes()
    for folder, _, files in os.walk(tmp_path):
        for file in files:
            with open(os.path.join(folder, file), "rb") as content:
                assert needle not in content.read(), file


# The example of docs/from-opacus.md. Opacus' own accountants are the oracle.
def test_epsilon_is_that_of_opacus(tmp_path):
    pytest.importorskip("opacus")
    from opacus.accountants import PRVAccountant, RDPAccountant

    x, y = torch.randn(2000, 6), torch.arange(2000) % 2
    run = dptrain.torch.train(mlp(), (x, y), noise=1.1, delta=1e-5, clip=1, lot=100, epochs=5, optimizer="momentum", lr=0.1, accountant="rdp", population=2000)
    rate, steps = run.report["rate"], run.report["steps"]
    assert (rate, steps) == (0.05, 100)
    for oracle, accountant, tolerance in [(RDPAccountant(), "rdp", 1e-3), (PRVAccountant(), "pld", 0.02)]:
        oracle.history = [(1.1, rate, steps)]
        want = oracle.get_epsilon(1e-5)
        got = run.ledger.epsilon(delta=1e-5, accountant=accountant)
        assert got <= want * (1 + 1e-6) and got == pytest.approx(want, rel=tolerance), accountant
    assert run.epsilon == pytest.approx(RDPAccountant.get_epsilon(_with_history(RDPAccountant(), rate, steps), 1e-5), rel=1e-3)


def _with_history(accountant, rate, steps):
    accountant.history = [(1.1, rate, steps)]
    return accountant
