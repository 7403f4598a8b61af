"""The halves of the HTTP API and of its client that live on asyncio; `control/api.py` is the front door."""
