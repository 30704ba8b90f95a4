"""Where does scoring run: in this process, in others of this machine, or on a cluster?"""

from calibrail.engine.current import use_engine
from calibrail.engine.scoring import score_examples, score_parts

__all__ = ["score_examples", "score_parts", "use_engine"]
