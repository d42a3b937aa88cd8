"""Simulates the updates of the default settings for tables, to fit their rules on tables drawn for it.

simulate.py scales    prints what log and asinh scales of skewed columns gain
simulate.py hidden    prints what a hidden layer gains over random features

The tables are not those of bench/tables. Lots have all records, and noise is Gaussian. docs/defaults.md
states the constants that came from these results.
"""
import argparse
import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

DELTA = 1e-5


def privacy_parameter(epsilon):
    """The parameter of Gaussian DP that (epsilon, DELTA) stands for."""
    def excess(mu):
        return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - DELTA

    return brentq(excess, 1e-3, 50)


class Rule:
    """The settings of ForTable for a table of numbers with classes."""

    def __init__(self, n, columns, classes, epsilon):
        self.mu, self.b = privacy_parameter(epsilon), math.sqrt(columns + 1)
        self.rho = self.mu * n / (self.b * math.sqrt(classes))
        scale = 7 / (self.b * math.sqrt(classes)) * min(1, self.rho / 30) ** 0.2
        if self.rho >= 20:
            scale *= min(1, n / 140) ** 2
        self.linear_scale = scale
        first = min(2.5, self.b * math.sqrt(1 - 1 / classes))
        self.linear_clip = max(0.1, first * min(1, self.rho / 60) ** 2)
        known = 80 if columns <= 20 else 110
        self.hidden = self.rho >= known and n >= 400


def adam(parameters, gradients, noise, scale, steps, random, average=0.95):
    """Yields after each step; gradients() returns clipped sums, each divided by the number of records."""
    rate = scale / math.sqrt(steps)
    m = [np.zeros_like(p) for p in parameters]
    v = [np.zeros_like(p) for p in parameters]
    mean = [p.copy() for p in parameters]
    weight = 1.0
    for step in range(1, steps + 1):
        for i, (p, g) in enumerate(zip(parameters, gradients())):
            g = g + noise * random.standard_normal(p.shape, dtype=np.float32)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            p -= (rate / (1 - 0.9**step) * m[i] / (np.sqrt(v[i] / (1 - 0.999**step)) + 1e-8)).astype(np.float32)
            mean[i] += (1 - average) / (1 - average**step) * (p - mean[i]) if step > 1 else p - mean[i]
    return mean


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def linear(x, y, classes, rule, steps, random, features=0, scale=None, clip=None):
    """Trains a linear network, with random features if their number is given; returns its function."""
    columns = x.shape[1]
    frequency = random.normal(0, 2 / math.sqrt(columns), (columns, features)).astype(np.float32)
    phase = random.uniform(-math.pi, math.pi, features).astype(np.float32)

    def inputs(x):
        parts = [x, np.ones((len(x), 1), np.float32)]
        if features:
            parts.append(0.35 * rule.b * math.sqrt(2 / features) * np.cos(x @ frequency + phase))
        return np.hstack(parts).astype(np.float32)

    clip, scale = clip or rule.linear_clip, scale or rule.linear_scale
    a, target = inputs(x), np.eye(classes, dtype=np.float32)[y]
    length = np.sqrt((a * a).sum(1))
    w = np.zeros((a.shape[1], classes), np.float32)

    def gradients():
        d = softmax(a @ w) - target
        factor = np.minimum(1, clip / (length * np.sqrt((d * d).sum(1)) + 1e-12))
        return [a.T @ (d * factor[:, None]) / len(x)]

    mean = adam([w], gradients, clip * math.sqrt(steps) / (rule.mu * len(x)), scale, steps, random)[0]
    return lambda x: (inputs(x) @ mean).argmax(1)


def hidden(x, y, classes, rule, steps, random, units=64, scale=0.4, clip=2.0):
    """Trains a network with one hidden layer; returns its function."""
    columns = x.shape[1]
    draw = lambda fan, *shape: random.uniform(-1 / math.sqrt(fan), 1 / math.sqrt(fan), shape).astype(np.float32)
    a = np.hstack([x, np.ones((len(x), 1), np.float32)])
    target = np.eye(classes, dtype=np.float32)[y]
    w, v = draw(columns, columns + 1, units), draw(units, units + 1, classes)
    length = (a * a).sum(1)

    def gradients():
        h = np.maximum(a @ w, 0)
        d = softmax(h @ v[:-1] + v[-1]) - target
        back = (d @ v[:-1].T) * (h > 0)
        size = length * (back * back).sum(1) + (1 + (h * h).sum(1)) * (d * d).sum(1)
        factor = np.minimum(1, clip / (np.sqrt(size) + 1e-12))[:, None]
        d, back = d * factor, back * factor
        return [a.T @ back / len(x), np.vstack([h.T @ d, d.sum(0)]) / len(x)]

    w, v = adam([w, v], gradients, clip * math.sqrt(steps) / (rule.mu * len(x)), scale, steps, random)
    return lambda x: (np.maximum(np.hstack([x, np.ones((len(x), 1), np.float32)]) @ w, 0) @ v[:-1] + v[-1]).argmax(1)


def by_rule(x, y, classes, rule, steps, random):
    if rule.hidden:
        return hidden(x, y, classes, rule, steps, random)
    columns = x.shape[1]
    return linear(x, y, classes, rule, steps, random, 128 if columns <= 20 or rule.rho >= 50 else 0)


def outwards(low, high):
    """Bounds like those of dptrain schema: multiples of 1, 2 or 5 times a power of ten."""
    width = (high - low) / 10
    power = 10.0 ** math.floor(math.log10(width))
    unit = next(d for d in (1, 2, 5, 10) if d * power >= width) * power
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def outwards_log(low, high):
    """Bounds above 0 of one digit: 1, 2 or 5 times a power of ten."""
    steps = [d * 10.0**k for k in range(-30, 31) for d in (1, 2, 5)]
    return max(s for s in steps if s <= low), min(s for s in steps if s >= high)


def scalings(x):
    """The columns of x by each scale, with their deviation on [-1, 1]: a list of pairs a column."""
    columns = []
    for c in x.T:
        low, high = outwards(c.min(), c.max())
        found = {"": (2 * (c - low) / (high - low) - 1)}
        a, b = np.arcsinh(low), np.arcsinh(high)
        found["asinh"] = 2 * (np.arcsinh(c) - a) / (b - a) - 1
        if c.min() > 0:
            a, b = map(math.log, outwards_log(c.min(), c.max()))
            found["log"] = 2 * (np.log(c) - a) / (b - a) - 1
        columns.append(found)
    return columns


def scaled(x, scale, least):
    """x by the scale where it multiplies the deviation of a column by least, and the largest factor."""
    out, gains = [], []
    for found in scalings(x):
        gain = found[scale].std() / found[""].std() if scale in found else 0
        gains.append(gain)
        out.append(found[scale] if scale in found and gain >= least else found[""])
    return np.array(out, np.float32).T, float(np.median(gains))


def columns_of(kind, n, d, random):
    """Skewed columns and the scale that makes them symmetric, if one does."""
    z = random.standard_normal((n, d))
    if kind.startswith("log-normal"):
        return np.exp(float(kind.split()[1]) * z), "log"
    if kind.startswith("gamma"):
        return random.gamma(float(kind.split()[1]), 1, (n, d)) + 1e-9, "log"
    if kind.startswith("pareto"):
        return random.pareto(float(kind.split()[1]), (n, d)) + 1, "log"
    if kind == "amounts, half of them 0":
        return np.round(np.exp(6 + 1.5 * z) * (random.random((n, d)) < 0.5)), "asinh"
    if kind == "amounts, 90% of them 0":
        return np.round(np.exp(6 + 1.5 * z) * (random.random((n, d)) < 0.1)), "asinh"
    if kind.startswith("counts"):
        mean = float(kind.split()[1])
        return random.poisson(random.gamma(0.5, 2 * mean, (n, d))).astype(float), "asinh"
    if kind.startswith("both signs"):
        return np.sinh(float(kind.split()[2]) * z) * 20, "asinh"
    if kind.startswith("student"):
        return 10 * random.standard_t(float(kind.split()[1]), (n, d)), "asinh"
    if kind == "normal, above 0":
        return np.maximum(5 + z, 0.01), "log"
    if kind == "uniform":
        return random.random((n, d)) * 100 + 1e-6, "log"
    if kind == "one number of 1,000":
        return 10 * np.exp(0.3 * z) * np.where(random.random((n, d)) < 0.001, 1000, 1), "log"
    raise SystemExit(kind)


KINDS = ["log-normal 0.4", "log-normal 0.6", "log-normal 0.8", "log-normal 1.2", "log-normal 2", "gamma 0.3", "gamma 1", "gamma 3", "pareto 1", "pareto 3",
         "amounts, half of them 0", "amounts, 90% of them 0", "counts 1", "counts 10", "counts 100", "both signs 1", "both signs 2.5", "student 1.5", "student 3",
         "normal, above 0", "uniform", "one number of 1,000"]


def effect_of(effect, x, scale):
    """What a column adds to the logit, with mean 0 and deviation 1."""
    if effect == "scaled":
        e = np.log(x) if scale == "log" else np.arcsinh(x)
    elif effect == "number":
        e = x.copy()
    e = (e - e.mean(0)) / e.std(0)
    return e


def labels(logit, random):
    return (random.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(int)


def accuracy(f, x, y):
    return 100 * float((f(x) == y).mean())


def scales(o):
    """Prints what scales gain, by the factor of the deviation. All columns are of one kind, and half of them have an effect."""
    print("| columns | effect | n | ε | factor of the deviation | as numbers | scaled | difference |\n|---|---|---|---|---|---|---|---|")
    for kind in o.kind.split("; ") if o.kind else KINDS:
        for effect in ("scaled", "number"):
            for n, epsilon in ((500, 1), (2000, 2)):
                rows, gains = [], []
                for seed in range(o.tables):
                    random = np.random.default_rng([seed, n, KINDS.index(kind)])
                    x, scale = columns_of(kind, n + o.test, o.columns, random)
                    beta = random.standard_normal(o.columns) * (np.arange(o.columns) < (o.columns + 1) // 2)
                    logit = 2.0 * effect_of(effect, x, scale) @ (beta / np.linalg.norm(beta))
                    y = labels(logit - np.median(logit), random)
                    rule = Rule(n, o.columns, 2, epsilon)
                    pair = []
                    for least in (math.inf, 0):
                        z, gain = scaled(x, scale, least)
                        f = by_rule(z[:n], y[:n], 2, rule, o.steps, np.random.default_rng(seed))
                        pair.append(accuracy(f, z[n:], y[n:]))
                    rows.append(pair)
                    gains.append(gain)
                rows = np.array(rows)
                d = rows[:, 1] - rows[:, 0]
                print(f"| {kind} | {effect} | {n} | {epsilon} | {np.mean(gains):.2f} | {rows[:, 0].mean():.1f} | {rows[:, 1].mean():.1f} | {d.mean():+.1f} ± {d.std(ddof=1) / math.sqrt(len(d)):.1f} |", flush=True)


def clusters(n, columns, informative, classes, groups, separation, random):
    """Normal groups around corners of a cube, mixed linearly, with columns of noise: make_classification."""
    corners = np.array([[(i >> k) & 1 for k in range(informative)] for i in random.choice(2**informative, classes * groups, replace=False)])
    g = random.integers(0, classes * groups, n)
    x = random.standard_normal((n, informative))
    mixed = np.empty_like(x)
    for i in range(classes * groups):
        mixed[g == i] = x[g == i] @ random.uniform(-1, 1, (informative, informative)) + separation * (2 * corners[i] - 1)
    y = g % classes
    flip = random.random(n) < 0.01
    y[flip] = random.integers(0, classes, flip.sum())
    z = np.hstack([mixed, random.standard_normal((n, columns - informative))])
    return z[:, random.permutation(columns)], y, classes


def table_of(kind, n, random):
    """A table: its columns, classes and their number."""
    z = lambda d: random.standard_normal((n, d))
    name, _, d = kind.rpartition(" ")
    d = int(d)
    beta = random.standard_normal(d)
    if name == "linear":
        x = z(d)
        return x, labels(2.5 * x @ beta / np.linalg.norm(beta), random), 2
    if name.startswith("log-normal"):
        u = z(d)
        e = effect_of("number", np.exp(0.7 * u), "log") if "numbers" in name else u
        return np.exp(1.2 * u), labels(2.5 * e @ beta / np.linalg.norm(beta), random), 2
    if name == "clusters of 5":
        return clusters(n, d, 5, 2, 2, 1, random)
    if name == "clusters of 6":
        return clusters(n, d, 6, 2, 3, 1, random)
    if name == "products and squares":
        x = z(d)
        return x, labels(0.7 * x @ beta + 0.8 * x[:, 0] * x[:, 1] + 0.6 * (x[:, 2] ** 2 - 1), random), 2
    if name == "a class of 10%":
        x = z(d)
        return x, labels(3.5 * x @ beta / np.linalg.norm(beta) - 4.2, random), 2
    if name == "two moons":
        y, a = random.integers(0, 2, n), random.uniform(0, math.pi, n)
        x = np.stack([np.where(y == 0, np.cos(a), 1 - np.cos(a)), np.where(y == 0, np.sin(a), 0.5 - np.sin(a))], 1) + 0.25 * z(2)
        return x, y, 2
    if name == "normal classes":
        k = 4
        y = random.integers(0, k, n)
        return z(d) + 0.9 * z(d)[:k][y], y, k
    if name == "six of ten":
        return clusters(n, d, 10, 6, 1, 1, random)
    if name == "four of six":
        return clusters(n, d, 6, 4, 2, 1, random)
    raise SystemExit(kind)


TABLES = ["clusters of 5 12", "clusters of 6 10", "log-normal 6", "log-normal 12", "log-normal numbers 8", "linear 5", "linear 10", "linear 20", "products and squares 8",
          "a class of 10% 8", "two moons 2"]


def hidden_gain(o):
    """What a hidden layer gains over the linear network of the rule, where skewed columns are scaled."""
    print("| tables | n | ε | ρ | linear | hidden layer | difference |\n|---|---|---|---|---|---|---|", flush=True)
    for n, epsilon in [tuple(map(float, p.split(":"))) for p in o.sizes.split(",")]:
        n = int(n)
        for kind in o.kind.split("; ") if o.kind else TABLES:
            rows = []
            for seed in range(o.tables):
                random = np.random.default_rng([seed, n, 99])
                x, y, classes = table_of(kind, n + o.test, random)
                x, _ = scaled(x, "log" if "log-normal" in kind else "none", 0)
                rule = Rule(n, x.shape[1], classes, epsilon)
                few = x.shape[1] <= 20 or rule.rho >= 50
                a = linear(x[:n], y[:n], classes, rule, o.steps, np.random.default_rng(seed), 128 if few else 0)
                b = hidden(x[:n], y[:n], classes, rule, o.steps, np.random.default_rng(seed), scale=o.scale, clip=o.clip)
                rows.append((accuracy(a, x[n:], y[n:]), accuracy(b, x[n:], y[n:])))
            rows = np.array(rows)
            d = rows[:, 1] - rows[:, 0]
            print(f"| {kind} | {n} | {epsilon:g} | {rule.rho:.0f} | {rows[:, 0].mean():.1f} | {rows[:, 1].mean():.1f} | {d.mean():+.1f} ± {d.std(ddof=1) / math.sqrt(len(d)):.1f} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["scales", "hidden"])
    p.add_argument("--kind", default="", help="only these kinds of columns, with a semicolon and a space between them")
    p.add_argument("--columns", type=int, default=8)
    p.add_argument("--tables", type=int, default=4)
    p.add_argument("--test", type=int, default=2000)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--sizes", default="480:2,1200:1,700:1,900:2", help="records and ε of the comparison of a hidden layer")
    p.add_argument("--scale", type=float, default=0.4, help="S of the hidden layer")
    p.add_argument("--clip", type=float, default=2, help="clip bound of the hidden layer")
    o = p.parse_args()
    {"scales": scales, "hidden": hidden_gain}[o.what](o)


if __name__ == "__main__":
    main()
