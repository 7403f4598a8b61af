"""The halves of the HTTP API and of its client that live on asyncio; `api/app.py` is the front door."""
