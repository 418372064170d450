"""spectrogp: how the frequency content of a signal or field changes over its inputs, with Gaussian processes.

Public names load on first use, so that ``import spectrogp`` and ``spectrogp --help`` are quick. They are listed in
``__init__.pyi``. No module may be called like a public function: importing the module would hide the function.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
