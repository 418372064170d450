"""Simulation-based calibration of NUTS on a small model with a convolutional spectral kernel.

``python -m benchmarks.calibration --out DIR``. In every replication parameters are drawn from their priors and data
from the model, ``NUTS`` draws from the posterior given these data, and the rank of each drawn quantity among the
posterior draws is noted. All ranks must be uniform. Talts et al. (2018).

What is simulated is written here anew, in NumPy, from the definitions: functions by their Gaussian conditional, data by
convolution of white noise (the covariance formula of the kernel is never used). So the ranks also test the kernel, the
functions, their priors with their Jacobians, and the marginal likelihood, not only that the sampler draws from what it
is given. A second run over the same data leaves out the Jacobian of the noise: the test must see it.
"""
