"""Where does scoring run? So far: in this process."""

from calibrail.engine.local import score_examples

__all__ = ["score_examples"]
