"""The only place that loads or calls a model; torch is imported when a text is first embedded."""

from calibrail.models.encoder import Encoder, load_encoder
from calibrail.models.location import DEFAULT_MODEL, Location, locate

__all__ = ["DEFAULT_MODEL", "Encoder", "Location", "load_encoder", "locate"]
