"""scikit-learn's own checks. WAIVED lists those that do not apply, with the reason."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

import dptrain

WAIVED = {"check_fit_idempotent": "each fit draws fresh noise, so two fits differ"}

SETTINGS = {"epsilon": 1000, "public_sample": "fit", "model": "logistic"}


@pytest.mark.parametrize("estimator", [dptrain.Classifier(**SETTINGS), dptrain.Regressor(**SETTINGS)])
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, expected_failed_checks=WAIVED)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{name}: {error!r}"[:300] for name, error in failed.items())
