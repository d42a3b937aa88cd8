"""Converts a module of PyTorch to the layers of ``dptrain train --model layers:…``.

``torch.export`` records the operations of the module's forward pass for a batch of examples, with the
names of their parameters. Each operation becomes a layer, or an error that names it.
"""

import torch

from ._errors import SettingError

_BATCH = 3  # of the recorded pass; every operation must keep it

_ACTIVATIONS = {"relu": (), "tanh": (), "sigmoid": (), "silu": (), "gelu": ("none",), "leaky_relu": (0.01,), "elu": (1.0, 1, 1), "softplus": (1.0, 20)}
_RESHAPES = {"view", "reshape", "_unsafe_view", "flatten", "squeeze", "unsqueeze", "unflatten"}
_COPIES = {"contiguous", "clone", "alias", "detach", "to", "_to_copy"}
_ADVICE = {
    "batch_norm": "a norm over a batch mixes its examples: use torch.nn.GroupNorm or LayerNorm",
    "log_softmax": "return the logits: the loss is the cross-entropy, which contains it",
    "softmax": "return the logits: the loss is the cross-entropy, which contains it",
}


def describe(module, example):
    """Returns the layers of a module for examples like the given one, and its number of outputs."""
    inputs = torch.zeros((_BATCH, *example.shape), dtype=example.dtype)
    was_training = module.training
    try:
        with torch.no_grad():
            program = torch.export.export(module.train(), (inputs,), strict=False)
    except Exception as error:  # torch.export raises many kinds
        raise SettingError(f"dptrain: torch.export cannot record the module: {_first_line(error)}") from None
    finally:
        module.train(was_training)
    return _Graph(module, program).layers()


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Layer:
    def __init__(self, text, name=None):
        self.text, self.name, self.source, self.added = text, name, None, None


class _Graph:
    """The operations of a recorded forward pass."""

    def __init__(self, module, program):
        self._nodes = program.graph.nodes
        self._parameters = dict(program.graph_signature.inputs_to_parameters)
        self._buffers = dict(program.graph_signature.inputs_to_buffers)
        self._shapes = {name: p.shape for name, p in module.named_parameters()}
        self._values = {}  # from nodes to layers
        self._list = []
        self._used = set()

    def layers(self):
        output = None
        for node in self._nodes:
            if node.op == "placeholder":
                if node.name not in self._parameters and node.name not in self._buffers:
                    if self._values:
                        raise SettingError("dptrain: the module's forward pass has several inputs; give a module that reads one tensor")
                    self._values[node] = _Layer("", "input")
            elif node.op == "call_function":
                self._add(node)
            elif node.op == "output":
                output = node.args[0]
        outputs = [n for n in output if n in self._values] if isinstance(output, (tuple, list)) else [output]
        if len(outputs) != 1 or len(output) != len(outputs):
            raise SettingError("dptrain: the module's forward pass has several results; give a module that returns one tensor, the logits")
        shape = outputs[0].meta["val"].shape
        if self._values[outputs[0]] is not (self._list or [None])[-1]:
            raise SettingError("dptrain: the module returns the result of an earlier layer, so its last layers have no effect; remove them")
        unused = sorted(set(self._shapes) - self._used)
        if unused:
            raise SettingError(f"dptrain: the forward pass does not use the parameter {unused[0]}; remove it from the module")
        if len(shape) > 2:
            raise SettingError(
                f"dptrain: the module returns a tensor of shape {tuple(shape)[1:]} for an example; it must return one number for each class, "
                "or one for a target"
            )
        return self._text(), shape[1] if len(shape) == 2 else 1

    def _text(self):
        before, counter = self._values[next(n for n in self._values)], 0
        for layer in self._list:  # a layer needs a name if another than the next one reads it
            for read in [layer.source if layer.source is not before else None, layer.added]:
                if read is not None and read.name is None:
                    counter += 1
                    read.name = f"out{counter}"
            before = layer
        statements, before = [], self._values[next(n for n in self._values)]
        for layer in self._list:
            text = layer.text if layer.added is None else f"add({layer.added.name})"
            if layer.source is not before:
                head, _, inside = text.partition("(")
                arguments = [a for a in [inside.rstrip(")"), f"from={layer.source.name}"] if a]
                text = f"{head}({','.join(arguments)})"
            statements.append(f"{layer.name}={text}" if layer.name else text)
            before = layer
        return ";".join(statements)

    def _add(self, node):
        """Adds the layer of an operation."""
        target = getattr(node.target, "_opname", None) or str(node.target)
        operation = target.rstrip("_") if not target.startswith("_") else target
        if operation in ("_assert_tensor_metadata", "sym_size", "_assert_scalar"):
            return
        # torch's schema gives the arguments their names and their defaults
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            self._refuse(node, operation)
        a = {s.name: s.default_value for s in schema.arguments if s.has_default_value()}
        a.update(zip((s.name for s in schema.arguments), node.args))
        a.update(node.kwargs)
        shape = tuple(node.meta["val"].shape) if hasattr(node.meta.get("val"), "shape") else ()
        if not shape or shape[0] != _BATCH:
            raise SettingError(f"dptrain: the operation {operation}{self._where(node)} changes the axis of the examples, which mixes them")
        handler = getattr(self, "_on_" + operation, None)
        if operation in _ACTIVATIONS:
            layer = self._activation(node, operation, a)
        elif operation in _RESHAPES:
            layer = self._reshape(node, a, shape)
        elif operation in _COPIES:
            self._values[node] = self._input(node, node.args[0])
            return
        elif handler:
            layer = handler(node, a, shape)
        else:
            self._refuse(node, operation)
        if layer is None:
            self._values[node] = self._input(node, node.args[0])
            return
        layer.source = layer.source or self._input(node, node.args[0])
        self._list.append(layer)
        self._values[node] = layer
        if target.endswith("_") and not target.startswith("_"):  # in place: the operand has the new value, too
            self._values[node.args[0]] = layer

    def _input(self, node, operand):
        if operand not in self._values:
            self._refuse(node, str(getattr(node.target, "_opname", node.target)))
        return self._values[operand]

    def _where(self, node):
        stack = node.meta.get("nn_module_stack") or {}
        names = [path for path, _ in stack.values() if path]
        return f" of {names[-1]}" if names else ""

    def _refuse(self, node, operation, reason=""):
        advice = reason or _ADVICE.get(operation.rstrip("_"), "use one of the layers that docs/python.md lists, or write the network in Go")
        raise SettingError(f"dptrain: the operation {operation}{self._where(node)} is not supported: {advice}")

    def _require(self, node, operation, condition, reason):
        if not condition:
            self._refuse(node, operation, reason)

    def _parametric(self, node, operation, kind, weight, bias, numbers=(), options=()):
        """A layer with the parameters NAME.weight and NAME.bias."""
        named = self._parameters.get(getattr(weight, "name", None))
        self._require(node, operation, named is not None, "its weight is not a parameter of the module")
        layer, _, last = named.rpartition(".")
        self._require(node, operation, layer and last == "weight", f"the parameter {named} is not the weight of a layer")
        self._require(node, operation, named not in self._used, f"{layer} is used twice; give each use its own layer")
        self._used.add(named)
        arguments = [str(n) for n in numbers] + [f"{k}={v}" for k, v in options]
        if bias is None:
            arguments.append("bias=0")
        else:
            self._require(node, operation, self._parameters.get(bias.name) == f"{layer}.bias", f"the bias of {layer} is not {layer}.bias")
            self._used.add(f"{layer}.bias")
        return _Layer(kind + (f"({','.join(arguments)})" if arguments else ""), layer)

    def _activation(self, node, operation, a):
        supported = _ACTIVATIONS[operation]
        given = tuple(v for name, v in a.items() if name not in ("self", "input"))[: len(supported)]
        self._require(node, operation, given == supported, f"its constants are {given}, and {supported} are supported")
        return _Layer({"leaky_relu": "leakyrelu"}.get(operation, operation))

    def _reshape(self, node, _, shape):
        if shape == tuple(node.args[0].meta["val"].shape) or len(shape) == 1:  # one number for each example keeps its axis
            return None
        return _Layer("flatten" if len(shape) == 2 else f"reshape({','.join(str(n) for n in shape[1:])})")

    def _on_linear(self, node, a, shape):
        return self._parametric(node, "linear", "linear", a["weight"], a["bias"], [shape[-1]])

    def _on_conv2d(self, node, a, shape):
        return self._convolution(node, "conv2d", a, shape)

    def _on_conv1d(self, node, a, shape):
        return self._convolution(node, "conv1d", a, shape)

    def _convolution(self, node, kind, a, shape):
        size = self._square(node, kind, a["weight"].meta["val"].shape[2:], "kernel")
        self._require(node, kind, not isinstance(a["padding"], str), "give padding as a number")
        return self._parametric(node, kind, kind, a["weight"], a["bias"], [shape[1], size], self._window(node, kind, a, stride=1) + self._groups(a))

    def _groups(self, a):
        return [("groups", a["groups"])] if a["groups"] != 1 else []

    def _square(self, node, operation, lengths, what):
        lengths = [lengths] if isinstance(lengths, int) else list(lengths)
        self._require(node, operation, len(set(lengths)) == 1, f"its {what} is {lengths}, and height and width must be equal")
        return lengths[0]

    def _window(self, node, operation, a, stride):
        """The options of a window that differ from those of a layer; stride is that of the layer."""
        options = []
        for name, option, usual in [("stride", "stride", stride), ("padding", "pad", 0), ("dilation", "dilation", 1)]:
            value = self._square(node, operation, a.get(name, usual) or usual, name)
            if value != usual:
                options.append((option, value))
        return options

    def _pool(self, node, kind, operation, a):
        self._require(node, operation, not a.get("ceil_mode"), "ceil_mode is not supported")
        size = self._square(node, operation, a["kernel_size"], "kernel")
        arguments = [str(size)] + [f"{k}={v}" for k, v in self._window(node, operation, a, stride=size)]
        return _Layer(f"{kind}({','.join(arguments)})")

    def _on_max_pool2d(self, node, a, _):
        return self._pool(node, "maxpool", "max_pool2d", a)

    def _on_avg_pool2d(self, node, a, _):
        self._require(node, "avg_pool2d", a["count_include_pad"] or not any(a["padding"]), "count_include_pad must be true")
        self._require(node, "avg_pool2d", a["divisor_override"] is None, "divisor_override is not supported")
        return self._pool(node, "avgpool", "avg_pool2d", a)

    def _on_adaptive_avg_pool2d(self, node, _, shape):
        if shape == tuple(node.args[0].meta["val"].shape):
            return None
        self._require(node, "adaptive_avg_pool2d", shape[2:] == (1, 1), f"its output is {shape[2:]}, and 1 is supported")
        return self._pooled(node, shape)

    def _on_mean(self, node, a, shape):
        operand = node.args[0].meta["val"].shape
        axes = sorted(d % len(operand) for d in (a.get("dim") or []))
        if len(operand) == 4 and axes == [2, 3]:
            return self._pooled(node, shape)
        self._require(node, "mean", len(operand) == 3 and axes == [1] and len(shape) == 2, "a mean over height and width, or over time, is supported")
        return _Layer("meanovertime")

    def _pooled(self, node, shape):
        """The mean of each channel, with the shape of torch."""
        pooled = _Layer("globalavgpool")
        if len(shape) == 2:
            return pooled
        pooled.source = self._input(node, node.args[0])
        self._list.append(pooled)
        layer = _Layer(f"reshape({','.join(str(n) for n in shape[1:])})")
        layer.source = pooled
        return layer

    def _on_layer_norm(self, node, a, shape):
        self._require(node, "layer_norm", list(a["normalized_shape"]) == [shape[-1]], "it must normalize the last axis")
        return self._norm(node, "layer_norm", "layernorm", a)

    def _on_group_norm(self, node, a, shape):
        self._require(node, "group_norm", len(shape) == 4, "it must read pictures")
        return self._norm(node, "group_norm", "groupnorm", a, [a["num_groups"]])

    def _norm(self, node, operation, kind, a, numbers=()):
        self._require(node, operation, a["weight"] is not None and a["bias"] is not None, "it must have a weight and a bias")
        self._require(node, operation, a["eps"] == 1e-5, f"eps is {a['eps']}, and 1e-5 is supported")
        return self._parametric(node, operation, kind, a["weight"], a["bias"], numbers)

    def _on_embedding(self, node, a, shape):
        self._require(node, "embedding", a["padding_idx"] == -1, "padding_idx is not supported")
        layer = self._parametric(node, "embedding", "embedding", a["weight"], None, [shape[-1]])
        layer.text = layer.text.replace(",bias=0", "")
        layer.source = self._input(node, a["indices"])
        self._require(node, "embedding", layer.source.name == "input", "it must read the input")
        return layer

    def _on_dropout(self, node, a, _):
        return _Layer(f"dropout({a['p']})") if a["train"] and a["p"] > 0 else None

    def _on_add(self, node, a, shape):
        other = node.args[1]
        self._require(node, "add", other in self._values and a.get("alpha", 1) == 1, "it must add the results of two layers")
        self._require(node, "add", shape == tuple(other.meta["val"].shape) == tuple(node.args[0].meta["val"].shape), "the results must have one shape")
        first, second = self._values[node.args[0]], self._values[other]
        layer = _Layer("")
        # the result of the last layer is read without a name
        layer.source, layer.added = (second, first) if self._list and first is not self._list[-1] else (first, second)
        return layer
