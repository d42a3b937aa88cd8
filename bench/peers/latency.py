"""Latency of predictions of one row: ``dptrain predict --serve`` beside onnxruntime with the exported model.

    python bench/peers/latency.py dptrain RUN ROWS.csv [--requests 3000]

RUN is the folder of a run on a table, and ROWS.csv has rows with its columns. Each round sends one row
over a connection that stays open, asks for /healthz on the same connection (what HTTP itself costs), and
runs one row in onnxruntime with one thread in this process. So all share the load of the machine. The
answers are compared. Needs onnxruntime and numpy.
"""

import argparse
import csv
import http.client
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("run")
    parser.add_argument("rows")
    parser.add_argument("--requests", type=int, default=3000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model = os.path.join(work, "model.onnx")
        subprocess.run([arguments.program, "export", arguments.run, "--out", model, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        session = open_session(model)
        rows = read_rows(arguments.rows, session, 200)
    server = subprocess.Popen(
        [arguments.program, "predict", arguments.run, "--serve", "127.0.0.1:0", "--quiet"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip()
        print(json.dumps(measure(http.client.HTTPConnection(url.removeprefix("http://")), session, rows, arguments.requests), indent=2))
    finally:
        server.terminate()
        server.wait()


def open_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def read_rows(path, session, count):
    """Returns rows, each as the server and as onnxruntime read it."""
    numbers = {i.name for i in session.get_inputs() if i.type == "tensor(double)"}
    words = {i.name for i in session.get_inputs()} - numbers
    rows = []
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row = {k.strip(): v.strip() for k, v in row.items()}
            read = {n: float(row[n]) for n in numbers} | {w: row[w] for w in words}
            feed = {n: np.array([[v]], np.float64 if n in numbers else object) for n, v in read.items()}
            rows.append((json.dumps(read), feed))
            if len(rows) == count:
                return rows
    return rows


def measure(connection, session, rows, requests):
    def post(body):
        connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    def health(_):
        connection.request("GET", "/healthz")
        connection.getresponse().read()

    ways = {
        "dptrain predict --serve": lambda body, feed: post(body),
        "GET /healthz of the server": lambda body, feed: health(body),
        "onnxruntime, in the process": lambda body, feed: session.run(["class", "probabilities"], feed),
    }
    seconds = {name: [] for name in ways}
    for i in range(requests):
        answers = {}
        for name, way in ways.items():
            start = time.perf_counter()
            answers[name] = way(*rows[i % len(rows)])
            seconds[name].append(time.perf_counter() - start)
        served, (_, probabilities) = answers["dptrain predict --serve"], answers["onnxruntime, in the process"]
        difference = abs(served["probability"] - probabilities.max())
        assert difference < 1e-5, difference
    warm = requests // 10
    return {
        name: {f"p{q}_ms": round(1e3 * float(np.percentile(s[warm:], q)), 3) for q in (50, 99)} | {"requests": len(s) - warm}
        for name, s in seconds.items()
    }


if __name__ == "__main__":
    main()
