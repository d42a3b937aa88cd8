"""Fine-tunes a network that was trained on public pictures, on few private ones: python3 run.py"""

import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import chart

SIDE, CLASSES, ROWS, TEST_ROWS = 28, 5, 1000, 1000


def draw(rows, seed):
    """Draws signs: a ring, a disc, a cross, a bar and a frame, of many sizes and places."""
    random = np.random.default_rng(seed)
    y = random.integers(0, CLASSES, rows)
    down, across = np.mgrid[0:SIDE, 0:SIDE]
    x = np.zeros((rows, 1, SIDE, SIDE), dtype=np.uint8)
    for i, sign in enumerate(y):
        (row, column), size, width = random.uniform(11, 17, 2), random.uniform(5, 9), random.uniform(1, 2)
        a, b = down - row, across - column
        radius, square = np.hypot(a, b), np.maximum(abs(a), abs(b))
        ink = [
            abs(radius - size) < width,
            radius < size,
            (np.minimum(abs(a), abs(b)) < width) & (square < size),
            (abs(a) < width) & (abs(b) < size),
            abs(square - size) < width,
        ][sign]
        x[i, 0] = np.clip(220 * ink + random.normal(0, 40, ink.shape), 0, 255)
    return x, y.astype(np.int64)


def train(*flags, out):
    subprocess.run(["dptrain", "train", *flags, "--out", out, "--quiet"], check=True)
    return chart.accuracies(out)


def main():
    Path("signs").mkdir(exist_ok=True)
    for part, rows, seed in [("train", ROWS, 1), ("test", TEST_ROWS, 2)]:
        x, y = draw(rows, seed)
        np.save(f"signs/x_{part}.npy", x)
        np.save(f"signs/y_{part}.npy", y)
    # Public digits teach the first layers what strokes are. This costs no privacy.
    train("--data", "digits", "--model", "digits-cnn", "--non-private", "--epochs", "1", "--lot", "100", "--lr", "0.1", out="runs/public")
    private = ["--data", "signs", "--classes", str(CLASSES), "--model", "digits-cnn", "--epsilon", "1"]
    tuned = train(*private, "--init", "runs/public/model.safetensors", "--freeze", "conv1,conv2,fc1", "--fresh", "fc2", out="runs/tuned")
    fresh = train(*private, out="runs/fresh")
    print(f"ε = 1: accuracy {tuned[-1][1]:.3f} with public layers, {fresh[-1][1]:.3f} from random weights")
    chart.lines("result.svg", "1,000 private pictures, ε = 1", "lots", "accuracy", {"public first layers": tuned, "from random weights": fresh})
    if tuned[-1][1] < fresh[-1][1]:
        sys.exit("public layers do not help")


if __name__ == "__main__":
    main()
