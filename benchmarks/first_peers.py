"""What others make of the records of ``benchmarks.first``: frequencies by signal processing, forecasts by regression.

Lomb–Scargle (astropy), ridges of a short-time Fourier transform (SciPy) and of a synchrosqueezed wavelet transform
(ssqueezepy) are told how many frequencies there are, and get records without their parabola, which trends would hide
them behind. The settings of the ridges are those of ``benchmarks.recovery``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from spectrogp.datasets import Signal

from .recovery import by_stft, by_synchrosqueezing

LEAST = 2.0  # cycles in the record that Lomb–Scargle looks from
MOST_ROWS = 1000  # of which ridges are looked for: their paths cost the square of them


def frequencies(t: np.ndarray, y: np.ndarray, error: np.ndarray | None, count: int) -> dict[str, list[float]]:
    """So many frequencies by each tool that is installed; of ridges their medians over time."""
    x = (t - np.mean(t)) / np.ptp(t)
    y = y - np.polyval(np.polyfit(x, y, 2), x)
    found: dict[str, list[float]] = {}
    try:
        found["Lomb–Scargle"] = _highest_peaks(t, y, error, count)
        if len(t) <= MOST_ROWS:
            data = Signal(t[:, None], y, np.zeros((len(t), count)))
            ridges: dict[str, Callable[..., Any]] = {"STFT": by_stft, "synchrosqueezing": by_synchrosqueezing}
            for name, tool in ridges.items():
                found[name] = [float(f) for f in np.median(tool(data, 0)["mean"], axis=0)]
    except ImportError:
        pass  # as many as there are
    return found


def _highest_peaks(t: np.ndarray, y: np.ndarray, error: np.ndarray | None, count: int) -> list[float]:
    """The highest peaks of a periodogram up to the usual Nyquist frequency, or ten times that of uneven times."""
    from astropy.timeseries import LombScargle

    span, (short, usual, long) = np.ptp(t), np.quantile(np.diff(np.sort(t)), [0.1, 0.5, 0.9])
    highest = 0.5 / usual * (1.0 if long - short < 0.5 * usual else 10.0)
    grid = np.arange(LEAST / span, highest, 0.1 / span)
    power, found = LombScargle(t, y, error).power(grid), []
    for _ in range(count):
        found.append(float(grid[np.argmax(power)]))
        power = np.where(np.abs(grid - found[-1]) < LEAST / span, 0.0, power)
    return found


def forecasts(t: np.ndarray, y: np.ndarray, later: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Errors of what others forecast."""

    def rmse(mean: Any) -> float:
        return float(np.sqrt(np.mean((np.asarray(mean) - truth) ** 2)))

    found = {"the mean": rmse(np.mean(y))}
    monthly = np.median(np.diff(t)) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from statsmodels.tsa.api import SARIMAX, AutoReg

            if monthly:
                model = SARIMAX(y, order=(1, 1, 1), seasonal_order=(0, 1, 1, 12)).fit(disp=False)
                found["SARIMA"] = rmse(model.forecast(len(truth)))
            else:
                found["AR(9)"] = rmse(AutoReg(y, 9).fit().predict(len(y), len(y) + len(truth) - 1))
        except ImportError:
            pass
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, WhiteKernel

        kernel = ConstantKernel() * RBF(50.0) + ConstantKernel() * ExpSineSquared(1.0, 1.0 if monthly else 11.0) * RBF(
            50.0
        )
        gp = GaussianProcessRegressor(kernel + WhiteKernel(0.1), normalize_y=True, random_state=0)
        found["scikit-learn's GP"] = rmse(gp.fit(t[:, None], y).predict(later[:, None]))
    return found
