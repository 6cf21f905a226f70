"""Chat sessions: the SQLite store, the message tree and the service that runs replies; knows nothing of HTTP or UI."""
