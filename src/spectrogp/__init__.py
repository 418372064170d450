"""spectrogp: how the frequency content of a signal or field changes over its inputs, with Gaussian processes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import kernels
    from .numerics import precision
    from .sampling import basis_on_grid, sample_by_convolution, sample_prior
    from .spectra import LocalSpectrum, local_spectrum, spectrogram, wigner

__version__ = "0.1.0"

# Where each public name lives. Loading on first use keeps ``import spectrogp`` and ``spectrogp --help`` quick.
# No module may share its name with a function listed here: importing the module would hide the function.
_HOME = {
    "LocalSpectrum": "spectra",
    "basis_on_grid": "sampling",
    "kernels": "kernels",
    "local_spectrum": "spectra",
    "precision": "numerics",
    "sample_by_convolution": "sampling",
    "sample_prior": "sampling",
    "spectrogram": "spectra",
    "wigner": "spectra",
}

__all__ = [
    "LocalSpectrum",
    "basis_on_grid",
    "kernels",
    "local_spectrum",
    "precision",
    "sample_by_convolution",
    "sample_prior",
    "spectrogram",
    "wigner",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_HOME[name]}", __name__)
    return module if name == "kernels" else getattr(module, name)
