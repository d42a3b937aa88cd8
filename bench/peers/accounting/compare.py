"""Compares dptrain, dp-accounting and Opacus on the cases that main.go draws. Each uses one core
and runs the same number of times, in one run of this script.

    pip install dp-accounting==0.6.0 && pip install --no-deps opacus
    python bench/peers/accounting/compare.py bench/results/accounting.json

Run it from the root of the repository on a machine without other work. It runs main.go and then
the peers. It writes answers and times to the JSON file, and a table to a Markdown file with the
same name. Opacus' accountant needs no torch, but its package imports torch; an empty module
replaces it.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import types

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import dp_accounting as dp  # noqa: E402
from dp_accounting import pld, rdp  # noqa: E402


def opacus_prv():
    """Opacus' PRVAccountant, without the rest of its package."""
    root = importlib.util.find_spec("opacus").submodule_search_locations[0]
    for name, path in (("opacus", root), ("opacus.accountants", root + "/accountants")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    optimizers = types.ModuleType("opacus.optimizers")
    optimizers.DPOptimizer = object
    sys.modules["opacus.optimizers"] = optimizers
    sys.modules["torch"] = types.ModuleType("torch")
    prv = importlib.import_module("opacus.accountants.prv").PRVAccountant
    del sys.modules["torch"]  # scipy would take it for the real one
    return prv


PRV = opacus_prv()


def event(case, noise):
    return dp.SelfComposedDpEvent(
        dp.PoissonSampledDpEvent(case["rate"], dp.GaussianDpEvent(noise)), case["steps"]
    )


def google(accountant):
    def answer(case):
        if case["kind"] == "noise":
            return dp.calibrate_dp_mechanism(
                accountant, lambda noise: event(case, noise), case["epsilon"], case["delta"]
            )
        return accountant().compose(event(case, case["noise"])).get_epsilon(case["delta"])

    return answer


def opacus(case):
    if case["kind"] == "noise":
        return None
    accountant = PRV()
    accountant.history = [(case["noise"], case["rate"], case["steps"])]
    return accountant.get_epsilon(case["delta"])


PEERS = {
    "dp-accounting pld": google(pld.PLDAccountant),
    "dp-accounting rdp": google(rdp.RdpAccountant),
    "opacus prv": opacus,
}


def measure(answer, case, repeats):
    times, value = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        try:
            value = answer(case)
        except Exception as error:  # a peer that fails is a result
            return {"error": f"{type(error).__name__}: {error}"[:120]}
        times.append(time.perf_counter() - start)
    return None if value is None else {"answer": float(value), "seconds": min(times)}


def cpu():
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def milliseconds(result):
    if result is None:
        return "–"
    if "error" in result:
        return "fails"
    return f"{result['answer']:.5g} in {1000 * result['seconds']:.3g} ms"


def table(report):
    names = ["dptrain pld", "dp-accounting pld", "opacus prv", "dptrain rdp", "dp-accounting rdp"]
    out = ["# Accounting, side by side", ""]
    out.append(
        f"dptrain ({report['go']}), dp-accounting {report['versions']['dp-accounting']}, "
        f"Opacus {report['versions']['opacus']} (Python {report['versions']['python']}); "
        f"{report['machine']}. One core each; the least time of {report['repeats']} runs of every accountant, dptrain's "
        f"first and the peers' right after; load {report['load'][0]:.1f} when it began and "
        f"{report['load'][1]:.1f} when it ended. Opacus' answers are at its default error of 0.01."
    )
    for kind, title, asked in (
        ("epsilon", "ε of a run", "noise"),
        ("noise", "The noise for a target ε", "epsilon"),
    ):
        cases = [c for c in report["cases"] if c["kind"] == kind]
        shown = [n for n in names if any(c["results"].get(n) for c in cases)]
        symbol = "σ" if asked == "noise" else "ε"
        out += ["", f"## {title}", "", f"| q | {symbol} | steps | δ | " + " | ".join(shown) + " |"]
        out.append("|" + "---|" * (4 + len(shown)))
        for c in cases:
            row = [f"{c['rate']:.4g}", f"{c[asked]:.4g}", str(c["steps"]), f"{c['delta']:.2g}"]
            out.append("| " + " | ".join(row + [milliseconds(c["results"].get(n)) for n in shown]) + " |")
        medians = []
        for n in shown:
            times = [c["results"][n]["seconds"] for c in cases if "seconds" in (c["results"].get(n) or {})]
            medians.append(f"{1000 * statistics.median(times):.3g} ms" if times else "–")
        out.append("| **median** | | | | " + " | ".join(medians) + " |")
    return "\n".join(out) + "\n"


def main(path):
    before = os.getloadavg()[0]
    subprocess.run(["go", "run", "./bench/peers/accounting", path], check=True)
    with open(path) as file:
        report = json.load(file)
    for case in report["cases"]:
        for name, answer in PEERS.items():
            case["results"][name] = measure(answer, case, report["repeats"])
    report["versions"] = {
        "dp-accounting": importlib.metadata.version("dp-accounting"),
        "opacus": importlib.metadata.version("opacus"),
        "python": platform.python_version(),
    }
    report["load"] = [before, os.getloadavg()[0]]
    report["machine"] = f"{cpu()}, {os.cpu_count()} cores, {platform.system()}"
    with open(path, "w") as file:
        json.dump(report, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with open(path.removesuffix(".json") + ".md", "w") as file:
        file.write(table(report))


if __name__ == "__main__":
    main(sys.argv[1])
