"""The closed sets that users choose from by name, one list for each. No imports: ``spectrogp --help`` is quick."""

KERNELS = {
    "auto": "matern for one input; for several, chosen from the data",
    "se": "squared exponential: smooth functions without oscillation",
    "nsq": "non-stationary quadratic: smooth functions whose scale changes",
    "sm": "spectral mixture: frequencies that do not change",
    "gsm": "generalised spectral mixture: biased where the frequency changes",
    "hmk": "harmonizable mixture: patterns of frequencies around centres",
    "convolutional": "the convolutional spectral kernel of the paper (CSK)",
    "chirplet": "as convolutional, and follows the chirp rate",
    "phase": "oscillations with a changing frequency, coherent for long",
    "matern": "as phase, with Matérn envelopes: time grows as the number of rows",
}
INFERENCES = {
    "laplace": "the optimum, and a normal approximation around it",
    "map": "the optimum alone: no bands",
    "nuts": "the No-U-Turn sampler: up to about a thousand rows",
    "sghmc": "stochastic-gradient Hamiltonian Monte Carlo: minibatches",
    "dsvi": "doubly stochastic variational inference",
}
APPROXIMATIONS = {
    "auto": "by the number of rows and the likelihood",
    "exact": "all rows together",
    "sgpr": "inducing points, integrated out",
    "svgp": "inducing points with a variational distribution: minibatches, any likelihood",
    "neighbours": "each row given its nearest neighbours: minibatches",
    "full-scale": "inducing points, and neighbours for the rest",
    "markov": "all rows, one after the other: exact for the matern kernel of one input, any number of rows",
}
EXPERIMENTS = {
    "fig1": "basis functions of the convolutional spectral kernel",
    "fig2": "draws, matrices and spectrograms of all kernels",
    "fig3": "posteriors of two-layer models",
    "fig4": "draws by depth",
    "table1": "local spectra in closed form",
    "chirp": "Figure 5: the frequency of a chirp",
    "solar": "Figure 6: solar irradiance",
    "air": "Figure 7: air temperature anomalies",
    "taxi": "Table 2: durations of taxi trips",
}
TABLES = ("chirp", "solar", "air", "taxi")  # experiments with rows, which are kept and can be made one by one
LIKELIHOODS = {
    "gaussian": "normal noise",
    "student": "Student-t noise: outliers do not pull the function",
}
TRANSFORMS = {
    "auto": "logarithms of outputs where these are likelier: what goes up and down grows with the level",
    "none": "outputs as they are",
    "log": "logarithms of outputs: components multiply",
}
UNITS = {
    "year": 365.25,
    "day": 1.0,
    "hour": 1.0 / 24.0,
    "minute": 1.0 / 1440.0,
    "s": 1.0 / 86400.0,
}  # of times, in days
SCALINGS = {
    "record": "colours of a spectrogram are decibels below its maximum",
    "column": "they are decibels below its maximum at every input: what is weak for a while shows",
}
FORMATS = ("png", "pdf", "svg")  # of figures


def frequency_unit(unit: str) -> str:
    """The unit of frequencies of an input that is counted in a ``unit``."""
    return "Hz" if unit == "s" else f"cycles per {unit}"
