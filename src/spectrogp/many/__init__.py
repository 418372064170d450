"""Many signals: one model for each group of rows, on the cores of a machine or the workers of a cluster."""

from .signals import choose, fit_many

__all__ = ["choose", "fit_many"]
