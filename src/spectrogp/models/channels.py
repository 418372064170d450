"""Several outputs that oscillate with the same phases: hearts, voices, engines, and sensors of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from ..core import inputs, with_fields
from ..kernels import AbstractKernel, Sum
from ..parameters import as_parameter, constrain, log_prior, realise
from .base import AbstractObjective, as_gaussian
from .data import Data
from .likelihoods import Gaussian
from .markov import MarkovGP
from .moments import Moments


def _each(converter: Any) -> Any:
    return lambda values: tuple(converter(value) for value in values)


class ChannelGP(AbstractObjective):
    """Markov models of several outputs with one kernel, but for amplitudes: phases and lengthscales are the same.

    Channel c is Σ_a σ_ca [cos φ_a u_ca(τ_a) + sin φ_a v_ca(τ_a)] + offset_c with noise of its own. Envelopes u, v are
    independent between channels, so that each has a waveform and delays of its own, and given φ and τ the channels are
    independent: their log likelihoods add up. Each channel has data of its own, at times of its own.

    Args:
        kernel: A ``MaternPhase``, or a sum of several; what its amplitudes are says nothing.
        amplitudes: Of every channel a tuple with σ of every term of the kernel, as a ``MaternPhase`` takes it; of a
            kernel of one term σ alone will do.
        likelihoods: Of every channel the noise, as ``MarkovGP`` takes it.
        offsets: Of every channel the mean a priori, in units of its output; zero when left out.

    Example:
        >>> import spectrogp as sg
        >>> kernel = sg.kernels.MaternPhase(sg.kernels.WarpedTime(2.0), lambda X: 3.0 * X[:, 0])
        >>> model = sg.models.ChannelGP(kernel, amplitudes=(1.0, 0.5), likelihoods=(0.1, 0.2))
        >>> data = sg.Data([0.0, 1.0], [0.5, -0.5]), sg.Data([0.5], [0.1])
        >>> model.predict(data, [0.0, 0.5, 1.0]).mean.shape
        (3, 2)
    """

    kernel: AbstractKernel
    amplitudes: tuple[Any, ...] = eqx.field(metadata={"unit": "y"})
    likelihoods: tuple[Gaussian, ...] = eqx.field(converter=_each(as_gaussian))
    offsets: tuple[Any, ...] = eqx.field(metadata={"unit": "y"})

    def __init__(
        self,
        kernel: AbstractKernel,
        amplitudes: Sequence[Any],
        likelihoods: Sequence[Any],
        offsets: Sequence[Any] | None = None,
    ) -> None:
        offsets = (0.0,) * len(likelihoods) if offsets is None else offsets
        if not len(amplitudes) == len(likelihoods) == len(offsets) or not len(likelihoods):
            numbers = f"{len(amplitudes)}, {len(likelihoods)} and {len(offsets)}"
            raise ValueError(f"amplitudes, likelihoods and offsets must be those of the same channels, got {numbers}")
        # Amplitudes that are never used must not be counted among the parameters.
        terms = tuple(with_fields(term, amplitude=as_parameter(1.0, "amplitude")) for term in _terms(kernel))
        self.kernel = Sum(*terms) if isinstance(kernel, Sum) else terms[0]
        self.likelihoods = likelihoods  # type: ignore[assignment]
        models = [
            MarkovGP(_with_amplitudes(kernel, of_terms), noise, offset)
            for of_terms, noise, offset in zip(amplitudes, likelihoods, offsets, strict=True)
        ]
        self.amplitudes = tuple(tuple(term.amplitude for term in model.terms) for model in models)
        self.offsets = tuple(model.offset for model in models)

    @property
    def channels(self) -> tuple[MarkovGP, ...]:
        """The model of every channel."""
        return tuple(self.channel(k) for k in range(len(self.likelihoods)))

    def channel(self, number: int) -> MarkovGP:
        """The model of one channel, by its ``number`` from 0 on."""
        # Field by field, since trees of draws have these fields too, with other things in them.
        terms = [
            with_fields(term, amplitude=amplitude)
            for term, amplitude in zip(self.terms, self.amplitudes[number], strict=True)
        ]
        kernel = with_fields(self.kernel, terms=tuple(terms)) if isinstance(self.kernel, Sum) else terms[0]
        blank = object.__new__(MarkovGP)
        return with_fields(blank, kernel=kernel, likelihood=self.likelihoods[number], offset=self.offsets[number])

    def realise(self, key: Array | None = None) -> Self:
        """This model with constrained parameters and plain functions.

        Args:
            key: A JAX random key for a draw of the functions given their whitened values; None for conditional means.
        """
        return realise(constrain(self), key)

    def log_joint(self, data: Sequence[Data], key: Array | None = None) -> Array:
        """Log likelihood of all channels plus log prior of the raw parameters.

        Args:
            data: Of every channel.
            key: Not needed.
        """
        del key
        pairs = zip(self.realise().channels, self._checked(data), strict=True)
        return sum((one.log_likelihood(rows, None) for one, rows in pairs), jnp.zeros(())) + log_prior(self)

    def predict(self, data: Sequence[Data], X: ArrayLike) -> Moments:
        """Mean and variance ``[t, c]`` of the functions of all channels.

        Args:
            data: Of every channel.
            X: Inputs ``[t, 1]``, or ``[t]``.
        """
        pairs = zip(self.realise().channels, self._checked(data), strict=True)
        parts = [one.moments(rows, inputs(X)) for one, rows in pairs]
        return Moments(*(jnp.stack(values, axis=1) for values in zip(*parts, strict=True)))

    @property
    def terms(self) -> tuple[Any, ...]:
        """The ``MaternPhase`` kernels that the kernel is the sum of, without their amplitudes."""
        return _terms(self.kernel)

    def _checked(self, data: Sequence[Data]) -> Sequence[Data]:
        if isinstance(data, Data) or len(data) != len(self.likelihoods):
            count = 1 if isinstance(data, Data) else len(data)
            raise ValueError(f"data must be those of {len(self.likelihoods)} channels, one Data each, got {count}")
        return data


def _terms(kernel: AbstractKernel) -> tuple[Any, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def _with_amplitudes(kernel: AbstractKernel, amplitudes: Any) -> AbstractKernel:
    """The kernel with other amplitudes, checked: those of its terms, or one of a single term."""
    terms = _terms(kernel)
    amplitudes = amplitudes if isinstance(amplitudes, tuple) else (amplitudes,)
    if len(amplitudes) != len(terms):
        raise ValueError(
            f"a channel must have as many amplitudes as the kernel has terms, {len(terms)}, got {len(amplitudes)}"
        )
    made = [_remade(term, amplitude) for term, amplitude in zip(terms, amplitudes, strict=True)]
    return Sum(*made) if isinstance(kernel, Sum) else made[0]


def _remade(term: Any, amplitude: Any) -> Any:
    fields = {name: value for name, value in vars(term).items() if name != "amplitude"}
    return type(term)(**fields, amplitude=amplitude)
