"""Attacks on the promises: what a hostile user did, and how often it led to a wrong verdict.

Each module holds the attacks on one subject in its list ``ATTACKS``.
"""
