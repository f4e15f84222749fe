"""History on disk: conversations as trees of turns, runs, events and full-text search, in SQLite.

`Store` is the façade; the other modules hold plain functions over a connection, each run by the
store inside one transaction on its one background thread.
"""

from baton.history.export import ImportResult
from baton.history.queries import query_rows
from baton.history.store import Store
from baton.platform.sqlite import sqlite_version, version_warning

__all__ = ["ImportResult", "Store", "query_rows", "sqlite_version", "version_warning"]
