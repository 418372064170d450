"""Speed of the library against peers, as ratios within one run: ``make bench``."""
