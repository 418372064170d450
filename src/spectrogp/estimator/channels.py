"""Several channels of a fitted estimator, each of which answers as if it had been fitted alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..initialise import InitialValues
from ..posterior import Band, Posterior


def by_channel(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that several channels answer one by one: their answers have the channels as the last axis."""

    @wraps(method)
    def answer(self: Any, *arguments: Any, **options: Any) -> Any:
        check_is_fitted(self)
        if not self.n_channels_:
            return method(self, *arguments, **options)
        parts = [method(self.channel(k), *arguments, **options) for k in range(self.n_channels_)]
        if not isinstance(parts[0], tuple):
            return np.stack(parts, axis=-1)
        stacked = [None if one[0] is None else np.stack(one, axis=-1) for one in zip(*parts, strict=True)]
        return Band(*stacked) if isinstance(parts[0], Band) else tuple(stacked)

    return answer


class ChannelsMixin:
    """The channels of a fitted estimator."""

    model_: Any
    data_: Any
    posterior_: Posterior
    initial_values_: InitialValues
    y_mean_: Any
    y_scale_: Any

    @property
    def n_channels_(self) -> int:
        """How many channels were fitted together; 0 for outputs of shape [n]."""
        return len(self.y_mean_) if np.ndim(self.y_mean_) else 0

    def channel(self, number: int) -> Self:
        """The fitted estimator of one of several channels, with the frequencies of all.

        Parameters
        ----------
        number : int
            The column of y in ``fit``.

        Returns
        -------
        estimator
            As if it had been fitted to outputs of shape [n]: it can be asked, drawn and saved by itself.
        """
        check_is_fitted(self)
        if not self.n_channels_:
            raise ValueError("the estimator was fitted to outputs of shape [n], which have no channels")
        if not 0 <= number < self.n_channels_:
            raise ValueError(f"number must be one of the {self.n_channels_} channels from 0 on, got {number!r}")
        one = copy.copy(self)
        one.model_, one.posterior_ = self.model_.channel(number), self.posterior_.channel(number)
        one.data_, one.initial_values_ = self.data_[number], self.initial_values_.channel(number)
        one.y_mean_, one.y_scale_ = self.y_mean_[number], self.y_scale_[number]
        return one

    def _require_one_channel(self, what: str) -> None:
        if self.n_channels_:
            raise ValueError(f"{what} shows one channel: choose it, as in model.channel(0).{what}()")

    def _draw_channels(self, rows: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
        """Draws ``[s, n, c]`` of the functions of all channels, in standardised units.

        A draw has the same frequencies in all channels, and envelopes of each.
        """
        chains, length = self.posterior_.log_joint.shape
        draws = []
        for place in rng.randint(chains * length, size=count):
            model = self.posterior_.at(*divmod(int(place), length))
            parts = (
                one.draw(data, rows, key=int(rng.randint(np.iinfo(np.int32).max)))[0]
                for one, data in zip(model.channels, self.data_, strict=True)
            )
            draws.append(np.stack(list(parts), axis=-1))
        return np.stack(draws)
