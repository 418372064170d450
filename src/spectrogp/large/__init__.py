"""Data larger than memory: rows on disk along a space-filling curve, batches of near rows, predictions as a stream."""

from .arranging import arrange
from .batches import Batches
from .predicting import predict_table
from .rows import Rows

__all__ = ["Batches", "Rows", "arrange", "predict_table"]
