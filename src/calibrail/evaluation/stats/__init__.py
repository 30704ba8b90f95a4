"""Statistics of scores and labels: shares, ranking, tests."""
