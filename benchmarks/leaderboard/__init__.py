"""Comparisons on one page that ranks detectors by what they cost at the coverage needed.

``python -m benchmarks.leaderboard [NAME=]RUN... -o PAGE`` merges folders that `calibrail compare`
wrote; ``make leaderboard`` makes the page of the documentation (``leaderboard_page.py``).
"""

from .comparisons import LeaderboardRun as LeaderboardRun
from .comparisons import leaderboard as leaderboard
