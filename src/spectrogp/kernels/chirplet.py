"""The chirplet kernel: a window that carries the local chirp rate too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ..parameters import Function, Parameter, scalar, vector
from . import pairwise
from .base import AbstractMixture, Characteristic, Local
from .nonstationary import window


class Chirplet(AbstractMixture):
    """Chirplet kernel: the inner product of the basis functions

        K_x(u) = exp(−½ a (u − x)² + iω(u − x)),    a = ℓ⁻² − ic    (normalised, a product over input dimensions)

    which follow a changing frequency with their chirp rate c(x). With A = a_i + ā_j and δ = ω_i − ω_j, per dimension,

        k = σ_i σ_j Re Π sqrt(2 / (ℓ_i ℓ_j A)) exp(−½ (a_i ā_j τ² + δ²)/A − iτ(ā_j ω_i + a_i ω_j)/A)

    Positive semidefinite for any functions; c = 0 is CSK. With c_d = ∂ω_d/∂x_d the local spectrum has Λ = ½Σ⁻¹ (for ω_d
    that varies along its own axis) where CSK's is broadened by the change of ω. The local frequency is
    ω − ¼ Σ_d ℓ_d² ∇c_d: exactly ω when the chirp rate is constant. Beyond the paper.

    Args:
        lengthscale: ℓ, in units of the input: a number, ``[d]`` or ``[a, d]`` for a components, a ``Positive`` to be
            fitted, or a function of the input (a callable with values ``[n, d]`` or ``[n, a, d]``, or a
            ``FunctionGroup``).
        frequency: ω, *angular* (2π times cycles per unit of the input), likewise; ``Real`` to be fitted.
        amplitude: σ ≥ 0, standard deviation in units of the output: a number, ``[a]``, a ``Positive`` to be fitted, or
            a function of the input with values ``[n]`` or ``[n, a]``.
        chirp: c, in radians per squared unit of the input, likewise; None ties it to the frequency, c_d = ∂ω_d/∂x_d.
    """

    lengthscale: Parameter = vector(positive=True, unit="x")
    frequency: Parameter = vector(unit="rad/x")
    amplitude: Parameter = scalar(nonnegative=True, unit="y", default=1.0)
    chirp: Parameter | None = vector(unit="rad/x²", default=None, kw_only=True)

    def local(self, X: Array) -> Local:
        local = Local(x=X, **self.values_at(X))
        if self.chirp is not None:
            return local
        chirp = _own_derivative(lambda at: self.field_at("frequency", at), X)
        return local.replace(chirp=jnp.broadcast_to(chirp, local.frequency.shape))

    def pair(self, p: Local, q: Local) -> Characteristic:
        # The exponent of the formula above, centred between the inputs: for windows that follow a chirp its terms are
        # huge and cancel, and η, the frequency that the chirps leave over, is what remains.
        tau = p.x - q.x
        s, r = p.lengthscale**-2, q.lengthscale**-2
        alpha, beta, gap = s + r, q.chirp - p.chirp, s - r  # A = α + iβ
        eta = (p.frequency - q.frequency) - 0.5 * tau * (p.chirp + q.chirp)
        size = alpha**2 + beta**2
        D = (alpha * (tau**2 * (s * r + 0.25 * beta**2) + eta**2) - tau * gap * eta * beta) / size
        turn = (tau * gap * eta - 0.5 * tau**2 * alpha * beta) * alpha + (
            tau**2 * (s * r - 0.25 * beta**2) + eta**2
        ) * beta
        # Re A > 0, so the principal root is right per dimension (not for the product over dimensions). K_i K̄_j turns by
        # −ωτ; the sign of the phase is free in a real kernel, and +ωτ is the family's convention.
        U = 0.5 * tau * (p.frequency + q.frequency) - 0.5 * turn / size + 0.5 * jnp.arctan2(beta, alpha)
        modulus = jnp.sqrt(2.0 * jnp.sqrt(s * r / size))
        return Characteristic(
            p.amplitude * q.amplitude * jnp.prod(modulus, axis=-1), jnp.sum(D, axis=-1), jnp.sum(U, axis=-1)
        )

    def cross(self, p: Local, q: Local) -> Array:
        return pairwise.chirplet_cross(p, q)

    def basis(self, p: Local, u: Array) -> Array:
        """K_x(u) of one input, with local parameters ``p``, at one point ``u [d]``: complex ``[a]``, of norm σ."""
        return window(u - p.x, p.lengthscale, p.frequency, p.chirp, p.amplitude)


def _own_derivative(function: Function, X: Array) -> Array:
    """∂f_d/∂x_d of a pointwise function ``[n, d] → [n, a, d]``, one forward derivative per dimension."""

    def along(d: int) -> Array:
        tangent = jnp.zeros_like(X).at[:, d].set(1.0)
        return jax.jvp(function, (X,), (tangent,))[1][..., d]

    return jnp.stack([along(d) for d in range(X.shape[1])], axis=-1)
