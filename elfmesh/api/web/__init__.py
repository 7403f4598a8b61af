"""Parts of the HTTP API that `api/app.py` combines."""
