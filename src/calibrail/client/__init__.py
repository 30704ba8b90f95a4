"""Package.

It imports none of the service's own modules, nor numpy or a model: a decision is all it knows.
"""

from calibrail.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
