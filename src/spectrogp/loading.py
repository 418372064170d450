"""Loading of model files: where the classes are that a file may name."""

from __future__ import annotations

import importlib
from typing import Any

from .files import FilePath, read_model, read_notes

# The subpackages whose exported classes a file may hold.
HOMES = ("parameters", "kernels", "spectra", "models", "posterior", "inference", "initialise", "estimator")


def load(path: FilePath) -> Any:
    """What ``save`` wrote to a file, with the same values in every bit; all arrays are NumPy arrays.

    A file that is damaged, foreign, made to do harm, or of another format's version raises ``ModelFileError``; nothing
    in a file is ever run.

    Args:
        path: A file that ``spectrogp.save`` or ``SpectralGPRegressor.save`` wrote.
    """
    return read_model(path, _find)


def load_metadata(path: FilePath) -> dict[str, Any]:
    """The notes that were saved along with a model.

    Args:
        path: A file that ``spectrogp.save`` wrote.
    """
    return read_notes(path, _find)


def _find(home: str, name: str) -> type | None:
    if home not in HOMES:
        return None
    face = importlib.import_module(f".{home}", __package__)
    found = getattr(face, name) if name in face.__all__ else None
    return found if isinstance(found, type) else None
