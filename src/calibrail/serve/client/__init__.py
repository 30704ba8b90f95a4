"""How does a program ask a service for decisions, and what if there is none to be had?

It imports none of the service's own modules, nor numpy or a model: a decision is all it knows.
"""

from calibrail.serve.client.asynchronous import AsyncClient
from calibrail.serve.client.synchronous import Client

__all__ = ["AsyncClient", "Client"]
