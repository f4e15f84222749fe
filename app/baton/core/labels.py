"""How far a text may travel: a lattice, local < lan < cloud.

Every conversation, message, file and output carries a label. What is derived from several texts
carries the strictest label of them all, so private text stays local through planning, titles,
verification and branches alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Label(StrEnum):
    """The farthest place a text may be sent to."""

    LOCAL = "local"
    LAN = "lan"
    CLOUD = "cloud"

    def allows(self, privacy: Label) -> bool:
        """Whether text with this label may be shown to a worker of that privacy class."""
        return LABEL_RANK[privacy] <= LABEL_RANK[self]


_HOME_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localdomain")
_HOME_NETWORKS = (
    "10.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "fe80::/10",
)
"""Any other network counts as cloud: also tunnels through others (Teredo, 6to4, NAT64)."""


def address_label(url: str) -> Label:
    """Return how far a text travels to an address, judged by how the address is written.

    No name is looked up: names without a dot and those that only a home network knows count as
    lan, "localhost" as local, and every other name as cloud.
    """
    import ipaddress
    from urllib.parse import urlsplit

    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:  # no address at all, which a connection to it reports
        return Label.CLOUD
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host == "localhost":
            return Label.LOCAL
        # 134744072 is a way to write 8.8.8.8.
        plain = host.isascii() and host[:1].isalpha() and "." not in host
        return Label.LAN if plain or host.endswith(_HOME_SUFFIXES) else Label.CLOUD
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return Label.LOCAL
    is_near = any(address in ipaddress.ip_network(network) for network in _HOME_NETWORKS)
    return Label.LAN if is_near else Label.CLOUD


LABEL_RANK = {Label.LOCAL: 0, Label.LAN: 1, Label.CLOUD: 2}


def strictest(labels: Iterable[Label]) -> Label:
    """Return the label of something derived from all of these (nothing at all may go anywhere)."""
    return min(labels, key=LABEL_RANK.__getitem__, default=Label.CLOUD)


def farthest(labels: Iterable[Label]) -> Label:
    """Return how far a text may travel that goes to one of these places."""
    return max(labels, key=LABEL_RANK.__getitem__)
