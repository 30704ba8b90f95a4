"""Verdicts that may be looked at after every label."""
