"""What frequencies a kernel has, where: the local spectrum, the spectrogram, and the exact Wigner distribution."""

from .exact import wigner
from .local import LocalSpectrum, line_scale, local_frequency, local_spectrum, spectrogram

__all__ = ["LocalSpectrum", "line_scale", "local_frequency", "local_spectrum", "spectrogram", "wigner"]
