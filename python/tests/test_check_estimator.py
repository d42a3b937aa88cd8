"""scikit-learn's own checks. WAIVED lists those that do not apply, with the reason."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

import dptrain

NOISE = "compares two fits, and each fit draws fresh noise"
WAIVED = {"check_fit_idempotent": NOISE}
WAIVED_FOR_NUMBERS = {"check_regressor_data_not_an_array": NOISE, "check_regressors_int": NOISE, "check_supervised_y_2d": NOISE}

SETTINGS = {"epsilon": 1000, "public_sample": "fit", "model": "logistic"}


@pytest.mark.parametrize(
    "estimator, waived",
    [(dptrain.Classifier(**SETTINGS), WAIVED), (dptrain.Regressor(**SETTINGS), {**WAIVED, **WAIVED_FOR_NUMBERS})],
)
def test_scikit_learn_checks(estimator, waived):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, expected_failed_checks=waived)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, "\n".join(f"{name}: {error!r}"[:300] for name, error in failed.items())
