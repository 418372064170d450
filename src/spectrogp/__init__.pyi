# Every public name, once: ``__init__.py`` loads them from here on first use, and type checkers read them here.

from . import choices as choices
from . import datasets as datasets
from . import inference as inference
from . import initialise as initialise
from . import kernels as kernels
from . import large as large
from . import models as models
from . import plots as plots
from . import posterior as posterior
from .core import cache_compilations as cache_compilations
from .core import precision as precision
from .estimator import SpectralGPRegressor as SpectralGPRegressor
from .files import ModelFileError as ModelFileError
from .files import TableError as TableError
from .files import read_table as read_table
from .files import save as save
from .files import write_table as write_table
from .kernels import Layer as Layer
from .kernels import basis_on_grid as basis_on_grid
from .kernels import compositional_layers as compositional_layers
from .kernels import covariance_layers as covariance_layers
from .kernels import sample_by_convolution as sample_by_convolution
from .kernels import sample_prior as sample_prior
from .loading import load as load
from .loading import load_metadata as load_metadata
from .many import fit_many as fit_many
from .models import Data as Data
from .models import likelihoods as likelihoods
from .parameters import FunctionGroup as FunctionGroup
from .parameters import GridFunctionGroup as GridFunctionGroup
from .parameters import LogNormal as LogNormal
from .parameters import Normal as Normal
from .parameters import Positive as Positive
from .parameters import Real as Real
from .parameters import summary as summary
from .posterior import Band as Band
from .posterior import Posterior as Posterior
from .processes import distributed as distributed
from .spectra import LocalSpectrum as LocalSpectrum
from .spectra import local_spectrum as local_spectrum
from .spectra import spectrogram as spectrogram
from .spectra import wigner as wigner

__version__: str
