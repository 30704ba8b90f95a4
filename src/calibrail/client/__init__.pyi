# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.client.client import AsyncClient as AsyncClient
from calibrail.client.client import Client as Client
