"""Detectors that only the comparisons of papers need, as a plug-in of calibrail.

The entry points ``calibrail.scores`` make them scores like any other: ``halt`` and ``redeep``.
"""
