"""Money under its ceilings, and the log of everything that left this machine, in SQLite.

`Ledger` is the façade; `call_funds` and `queries` hold plain functions over a connection, each run
by the ledger inside one transaction on its one background thread.
"""

from baton.money.ledger import Ledger as Ledger
from baton.money.queries import UsageGrouping as UsageGrouping
from baton.money.schema import MIGRATIONS as MIGRATIONS
