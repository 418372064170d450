"""A campaign against the library: kills, full disks, flipped bits, hostile files and long use, counted.

``python -m benchmarks.torture`` (``make torture``) makes all trials and writes ``docs/reliability.md``; it ends with
exit code 1 if one of them failed. With ``--quick`` it makes a few of each, as the tests do.
"""
