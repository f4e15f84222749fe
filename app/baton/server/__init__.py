"""Baton as one model: an endpoint on loopback that other programs use."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.server.access import (
        DEFAULT_PORT as DEFAULT_PORT,
        LOOPBACK as LOOPBACK,
        ServerTokens as ServerTokens,
        read_tokens as read_tokens,
    )
    from baton.server.http_server import (
        OpenEndpoint as OpenEndpoint,
        is_loopback as is_loopback,
        serving as serving,
    )
    from baton.server.request_runner import ServingLimits as ServingLimits
else:
    __getattr__ = lazy_exports(
        __name__,
        access="DEFAULT_PORT LOOPBACK ServerTokens read_tokens",
        http_server="OpenEndpoint is_loopback serving",
        request_runner="ServingLimits",
    )
