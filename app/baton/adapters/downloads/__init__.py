"""Where model files come from: hubs and addresses, asked and fetched by a child process."""

from baton.adapters.downloads.supply import HubSupply

__all__ = ["HubSupply"]
