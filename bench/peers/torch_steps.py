"""Training steps in PyTorch: ordinary, and private in Opacus' two ways and by torch.func.

Opacus is imported where it is used: PyTorch is timed where it is not installed, too.
"""

import torch
import torch_networks as networks
from torch.nn import functional as F
from workloads import BOUND, MULTIPLIER, RATE

VERSIONS = {"torch": torch.__version__}


DEVICE = "cpu"
PRECISION = "fp32"


def start(threads, device, precision):
    global DEVICE, PRECISION
    DEVICE, PRECISION = device, precision
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def device_memory():
    return torch.cuda.max_memory_allocated()


def batch(workload):
    return (torch.from_numpy(part).to(DEVICE) for part in workload.data())


def network(workload, form=None):
    return getattr(networks, (form or {}).get(workload.network, workload.network))(workload).to(DEVICE)


def rounded():
    """Computes products in bfloat16 where that is asked for."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=PRECISION == "bf16")


def channels_last(workload, *parts):
    """Gives pictures and kernels the layout in which PyTorch's convolutions are fastest.

    Not for Opacus: version 1.6.0 then computes other gradients (see README.md).
    """
    if len(workload.shape) < 3:
        return parts
    return [part.to(memory_format=torch.channels_last) for part in parts]


def mean_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def plain(workload, _):
    features, labels = batch(workload)
    net, features = channels_last(workload, network(workload), features)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)

    def step():
        optimizer.zero_grad()
        with rounded():
            loss = mean_loss(net(features), labels)
        loss.backward()
        optimizer.step()

    return step


def compiled(workload, _):
    """The ordinary step by torch.compile, its launches recorded in CUDA graphs where there is a GPU."""
    features, labels = batch(workload)
    net, features = channels_last(workload, network(workload), features)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, foreach=True)

    @torch.compile(mode="reduce-overhead" if DEVICE == "cuda" else None)
    def loss_of(features, labels):
        with rounded():
            return mean_loss(net(features), labels)

    def step():
        optimizer.zero_grad()
        loss_of(features, labels).backward()
        optimizer.step()

    return step


FORM_FOR_OPACUS = {"lstm": "lstm_of_opacus", "embedding_bag": "embedding_bag_of_rows"}


def hooks(workload, _):
    import opacus
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    VERSIONS["opacus"] = opacus.__version__
    net = GradSampleModule(network(workload, FORM_FOR_OPACUS))
    features, labels = batch(workload)
    optimizer = DPOptimizer(
        torch.optim.SGD(net.parameters(), lr=RATE),
        noise_multiplier=MULTIPLIER, max_grad_norm=BOUND, expected_batch_size=workload.batch,
    )

    def step():
        optimizer.zero_grad()
        mean_loss(net(features), labels).backward()
        optimizer.step()

    return step


def ghost(workload, _):
    import opacus
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    VERSIONS["opacus"] = opacus.__version__
    net = GradSampleModuleFastGradientClipping(network(workload, FORM_FOR_OPACUS), max_grad_norm=BOUND)
    features, labels = batch(workload)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(net.parameters(), lr=RATE),
        noise_multiplier=MULTIPLIER, max_grad_norm=BOUND, expected_batch_size=workload.batch,
    )
    criterion = DPLossFastGradientClipping(net, optimizer, torch.nn.CrossEntropyLoss())

    def step():
        optimizer.zero_grad()
        logits = net(features)
        shape = logits.shape if logits.dim() == 3 else None
        criterion(logits.flatten(0, -2), labels.flatten(), shape=shape).backward()
        optimizer.step()

    return step


FORM_FOR_FUNC = {"lstm": "lstm_by_step", "embedding_bag": "embedding_bag_of_rows"}


def func(workload, records):
    """vmap(grad) over the given number of records at a time; 0: all."""
    features, labels = batch(workload)
    net, features = channels_last(workload, network(workload, FORM_FOR_FUNC), features)
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(params, x, y):
        return mean_loss(torch.func.functional_call(net, params, (x[None],)), y[None])

    one_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    parts = list(zip(*(t.split(records or workload.batch) for t in (features, labels))))

    def step():
        total = None
        for x, y in parts:
            grads = [g.flatten(1) for g in one_each(params, x, y).values()]
            norms = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in grads]).norm(dim=0)
            factors = (BOUND / norms).clamp(max=1.0)
            sums = [factors @ g for g in grads]
            if total is None:
                total = sums
            else:
                torch._foreach_add_(total, sums)
        for p, g in zip(params.values(), total):
            noise = torch.randn_like(g).mul_(MULTIPLIER * BOUND)
            p.add_(g.add_(noise).view(p.shape), alpha=-RATE / workload.batch)

    return step
