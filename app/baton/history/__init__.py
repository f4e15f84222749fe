"""History on disk: conversations as trees of turns, runs, events and full-text search, in SQLite.

`Store` is the façade; the other modules hold plain functions over a connection, each run by the
store inside one transaction on its one background thread.
"""

from baton.history.changes import new_id as new_id
from baton.history.export import ImportResult as ImportResult
from baton.history.queries import query_rows as query_rows
from baton.history.schema import MIGRATIONS as MIGRATIONS
from baton.history.store import Store as Store
