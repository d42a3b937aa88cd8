"""Runs the networks on PyTorch's meta device, which has shapes but no data.

    python -m unittest test_torch_networks

A tensor that a network makes on the CPU fails here, as it fails on a GPU.
"""

import importlib.util
import unittest

import torch
import torch_networks
import torch_steps
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from workloads import WORKLOADS

FORMS = {"PyTorch": {}, "torch.func": torch_steps.FORM_FOR_FUNC, "Opacus": torch_steps.FORM_FOR_OPACUS}


class OneDevice(TorchDispatchMode):
    """Refuses operations whose operands or results are not on the meta device."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        results = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, results)):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                raise RuntimeError(f"{operation} has a tensor on {tensor.device}")
        return results


class NetworksTest(unittest.TestCase):
    def test_all_tensors_are_on_the_device_of_the_input(self):
        for name, workload in WORKLOADS.items():
            for peer, forms in FORMS.items():
                if peer != "PyTorch" and workload.network not in forms:
                    continue
                if peer == "Opacus" and importlib.util.find_spec("opacus") is None:
                    continue  # its LSTM is imported from there
                with self.subTest(workload=name, peer=peer):
                    make = getattr(torch_networks, forms.get(workload.network, workload.network))
                    with torch.device("meta"):
                        network = make(workload)
                    features, labels = (torch.from_numpy(part).to("meta") for part in workload.data())
                    with OneDevice():
                        logits = network(features)
                        torch_steps.mean_loss(logits, labels).backward()
                    self.assertEqual(logits.shape, (*labels.shape, workload.classes))
                    for parameter in network.parameters():
                        self.assertIsNotNone(parameter.grad)


if __name__ == "__main__":
    unittest.main()
