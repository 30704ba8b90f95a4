"""Labelling in a browser or a terminal."""
