"""The command line as ``python -m spectrogp.cli``."""

from .app import main

main()
