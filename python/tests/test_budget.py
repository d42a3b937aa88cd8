"""Budgets and ledgers."""

import os
import subprocess
import sys

import pytest

import dptrain


def test_epsilon_and_noise_agree():
    plan = {"records": 60000, "lot": 600, "epochs": 60, "delta": 1e-5}
    noise = dptrain.budget.noise(epsilon=2, **plan)
    epsilon = dptrain.budget.epsilon(noise=noise, **plan)
    assert 1.998 <= epsilon <= 2


def test_epsilon_of_one_release_is_that_of_the_gaussian_mechanism():
    """Balle and Wang 2018, theorem 8: δ = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ)."""
    from math import exp

    from scipy.stats import norm

    sigma, delta = 2.0, 1e-5
    epsilon = dptrain.budget.epsilon(sampling="none", noise=sigma, steps=1, delta=delta)
    exact = norm.cdf(1 / (2 * sigma) - epsilon * sigma) - exp(epsilon) * norm.cdf(-1 / (2 * sigma) - epsilon * sigma)
    assert exact == pytest.approx(delta, rel=1e-2)


def test_other_quantities():
    assert dptrain.budget.steps(rate=0.01, noise=1, epsilon=2, delta=1e-5) > 100
    assert 0 < dptrain.budget.rate(noise=1, steps=1000, epsilon=2, delta=1e-5) < 1
    assert 0 < dptrain.budget.delta(rate=0.01, noise=4, steps=1000, epsilon=1) < 1
    assert {"pld", "rdp"} <= {row["accountant"] for row in dptrain.budget.compare(rate=0.01, noise=4, steps=100, delta=1e-5)}
    assert "ε" in dptrain.budget.statement(records=60000, lot=600, epochs=60, noise=4)


def test_an_unknown_setting_is_named():
    with pytest.raises(dptrain.SettingError, match="sigma"):
        dptrain.budget.epsilon(rate=0.01, sigma=4, steps=100, delta=1e-5)
    with pytest.raises(ValueError):
        dptrain.budget.epsilon(rate=2, noise=4, steps=100, delta=1e-5)


def test_a_damaged_ledger_is_refused(tmp_path):
    import pandas as pd
    from conftest import FACTS, draw

    columns, y = draw(1000)
    model = dptrain.Classifier(classes=["low", "high"], epochs=1, model="logistic", **FACTS).fit(pd.DataFrame(columns), y)
    content = model.ledger_.content.replace(b'"sampling', b'"Sampling', 1).replace(b"0.", b"1.", 1)
    with pytest.raises(dptrain.LedgerError, match="line"):
        dptrain.Ledger(content).verify()


def test_importing_the_package_does_not_import_scikit_learn():
    check = "import dptrain, sys; assert 'sklearn' not in sys.modules; dptrain.budget; dptrain.Classifier; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_another_version_of_the_program_is_refused(tmp_path):
    other = tmp_path / "dptrain"
    other.write_text("""#!/bin/sh\necho '{"version": "v9.9.9"}'\n""")
    other.chmod(0o755)
    ended = subprocess.run([sys.executable, "-c", "import dptrain"], env={**os.environ, "DPTRAIN_PROGRAM": str(other)}, capture_output=True, text=True)
    assert ended.returncode != 0 and "v9.9.9" in ended.stderr and "ImportError" in ended.stderr
