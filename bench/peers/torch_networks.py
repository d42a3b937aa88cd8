"""The workloads' networks in PyTorch, of modules that Opacus knows."""

import torch
from torch import nn
from torch.nn import functional as F


def logistic(workload):
    return nn.Linear(workload.shape[0], 10)


def mlp(workload):
    return nn.Sequential(nn.Linear(workload.shape[0], 1000), nn.ReLU(), nn.Linear(1000, 10))


def mnist_cnn(_):
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )


def cifar_abadi(_):
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2304, 384), nn.ReLU(), nn.Linear(384, 10),
    )


def cifar_tanh(_):
    layers, before = [], 3
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.Tanh()]
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2)]
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))


class Block(nn.Module):
    """Two convolutions, each after a norm and ReLU and a shortcut."""

    def __init__(self, before, channels, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, before), nn.GroupNorm(16, channels)
        self.conv1 = nn.Conv2d(before, channels, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(before, channels, 1, stride=stride) if before != channels else None

    def forward(self, x):
        h = F.relu(self.norm1(x))
        if self.shortcut is not None:
            x = self.shortcut(h)
        return x + self.conv2(F.relu(self.norm2(self.conv1(h))))


def wide_resnet(_):
    layers, before = [nn.Conv2d(3, 16, 3, padding=1)], 16
    for channels, stride in ((64, 1), (128, 2), (256, 2)):
        layers += [Block(before, channels, stride), Block(channels, channels, 1)]
        before = channels
    head = [nn.GroupNorm(16, 256), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*layers, *head)


class EmbeddingBag(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table, self.fc1, self.fc2 = table, nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, ids):
        x = self.table(ids)
        if x.dim() == 3:
            x = x.mean(1)
        return self.fc2(F.relu(self.fc1(x)))


def embedding_bag(workload):
    return EmbeddingBag(nn.EmbeddingBag(workload.vocabulary, 16, mode="mean"))


def embedding_bag_of_rows(workload):
    """For what cannot differentiate nn.EmbeddingBag one record at a time."""
    return EmbeddingBag(nn.Embedding(workload.vocabulary, 16))


class LSTM(nn.Module):
    def __init__(self, vocabulary, recurrence):
        super().__init__()
        self.table, self.lstm, self.fc = nn.Embedding(vocabulary, 100), recurrence, nn.Linear(128, 2)

    def forward(self, ids):
        states, _ = self.lstm(self.table(ids))
        return self.fc(states.mean(1))


class LSTMByStep(nn.Module):
    """An LSTM of plain operations, for torch.func, which cannot map over the fused one."""

    def __init__(self):
        super().__init__()
        self.input, self.recurrent = nn.Linear(100, 512), nn.Linear(128, 512, bias=False)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 128)
        states = []
        for share in self.input(x).unbind(1):
            i, f, g, o = (share + self.recurrent(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states, 1), None


def lstm(workload):
    return LSTM(workload.vocabulary, nn.LSTM(100, 128, batch_first=True))


def lstm_of_opacus(workload):
    from opacus.layers import DPLSTM

    return LSTM(workload.vocabulary, DPLSTM(100, 128, batch_first=True))


def lstm_by_step(workload):
    return LSTM(workload.vocabulary, LSTMByStep())


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        packed = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, vocabulary, time, width=128):
        super().__init__()
        self.table, self.position = nn.Embedding(vocabulary, width), nn.Embedding(time, width)
        self.blocks = nn.Sequential(TransformerBlock(width, 4), TransformerBlock(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        # Opacus' ghost norms read positions through a view: they must lie in one piece.
        places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape).contiguous()
        return self.head(self.norm(self.blocks(self.table(ids) + self.position(places))))


def transformer(workload):
    return Transformer(workload.vocabulary, workload.shape[0])
