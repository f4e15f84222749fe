"""Workers elsewhere: every call to them goes through the gateway child."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.cloud.gateway import (
        NEEDED as NEEDED,
        Gateway as Gateway,
        Patience as Patience,
    )
    from baton.workers.cloud.price_table import (
        cheapest as cheapest,
        price_of as price_of,
        snapshot as snapshot,
    )
    from baton.workers.cloud.redaction import (
        KEY as KEY,
        MAIL as MAIL,
        PASSWORD as PASSWORD,
        Redaction as Redaction,
    )
    from baton.workers.cloud.worker import CloudWorker as CloudWorker
else:
    __getattr__ = lazy_exports(
        __name__,
        gateway="Gateway NEEDED Patience",
        price_table="cheapest price_of snapshot",
        redaction="KEY MAIL PASSWORD Redaction",
        worker="CloudWorker",
    )
