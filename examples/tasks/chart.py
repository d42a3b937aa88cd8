"""Draws lines as SVG, with the standard library only.

    python3 chart.py OUT.svg TITLE LABEL=RUN …    test accuracy over the lots of runs of dptrain
"""

import json
import math
import sys
from xml.sax.saxutils import escape

COLOURS = ["#0b57b8", "#b04500", "#18794e", "#7a3fc4"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 340, 60, 20, 36, 74


def ticks(low, high):
    """Returns at most six round numbers between two."""
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 5)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def lines(path, title, x_label, y_label, series):
    """Writes series, a dict from names to lists of points (x, y), as a chart."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    low, high = min(ys), max(ys)
    low, high = low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1)

    def place(x, y):
        across = (x - min(xs)) / (max(xs) - min(xs) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def text(x, y, words, more=""):
        return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'

    parts = [text(LEFT, 20, title, 'font-weight="bold"')]
    for y in ticks(low, high):
        _, at = place(min(xs), y)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#d5dae0"/>' + text(LEFT - 6, at + 4, f"{y:.3g}", 'text-anchor="end"'))
    for x in ticks(min(xs), max(xs)):
        at, _ = place(x, low)
        parts.append(text(at, HEIGHT - BOTTOM + 18, f"{x:.3g}", 'text-anchor="middle"'))
    for i, (name, points) in enumerate(series.items()):
        path_of = "L".join("%.1f %.1f" % place(x, y) for x, y in points)
        parts.append(f'<path d="M{path_of}" fill="none" stroke-width="2" stroke="{COLOURS[i]}"/>')
        at = LEFT + i * (WIDTH - LEFT - RIGHT) / len(series)
        parts.append(f'<path d="M{at:.0f} {HEIGHT - 14}h22" stroke-width="2" stroke="{COLOURS[i]}"/>' + text(at + 28, HEIGHT - 10, name))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, x_label, 'text-anchor="middle"'))
    parts.append(text(0, 0, y_label, f'text-anchor="middle" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">\n')
        file.write(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def accuracies(run):
    """Returns the points (lot, accuracy on public test data) of a run."""
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        points = [json.loads(line) for line in file]
    return [(p["lot"], p["test_accuracy"]) for p in points if "test_accuracy" in p]


if __name__ == "__main__":
    out, title, *runs = sys.argv[1:]
    lines(out, title, "lots", "accuracy", {name: accuracies(run) for name, run in (r.split("=", 1) for r in runs)})
