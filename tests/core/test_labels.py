"""Labels only get stricter."""

import pytest
from hypothesis import given, strategies as st

from baton.core.labels import Label, address_label, strictest

LABELS = st.sampled_from(Label)


@given(st.lists(LABELS, min_size=1))
def test_what_is_derived_travels_no_farther_than_any_source(labels: list[Label]) -> None:
    derived = strictest(labels)
    assert derived in labels
    for label in labels:
        for place in Label:
            assert not derived.allows(place) or label.allows(place)


def test_the_lattice() -> None:
    assert Label.LOCAL.allows(Label.LOCAL)
    assert not Label.LOCAL.allows(Label.LAN)
    assert not Label.LAN.allows(Label.CLOUD)
    assert Label.CLOUD.allows(Label.CLOUD)


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("http://127.0.0.1:8000/v1", Label.LOCAL),
        ("http://[::1]:1234", Label.LOCAL),
        ("http://localhost:11434/v1", Label.LOCAL),
        ("http://[::ffff:127.0.0.1]/", Label.LOCAL),
        ("http://192.168.1.4:8000/v1", Label.LAN),
        ("http://10.0.0.9", Label.LAN),
        ("http://[fd00::1]:80", Label.LAN),
        ("http://nas:8000/v1", Label.LAN),
        ("http://nas.local", Label.LAN),
        ("https://api.openai.com/v1", Label.CLOUD),
        ("http://8.8.8.8", Label.CLOUD),
        ("http://[::ffff:8.8.8.8]/", Label.CLOUD),
        ("http://134744072/", Label.CLOUD),
        ("http://[fe80::1%25eth0]:80", Label.LAN),
        ("http://172.31.255.255", Label.LAN),
        ("http://172.32.0.1", Label.CLOUD),
        ("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]", Label.CLOUD),  # Teredo
        ("http://[2001::1]", Label.CLOUD),
        ("http://[2002:a00:1::1]", Label.CLOUD),  # 6to4
        ("http://[64:ff9b::a00:1]", Label.CLOUD),  # NAT64
        ("http://[64:ff9b:1::a00:1]", Label.CLOUD),
        ("http://[2001:db8::1]", Label.CLOUD),
        ("http://[::ffff:10.0.0.1]/", Label.LAN),
        ("http://[::10.0.0.1]/", Label.CLOUD),
        ("http://[fec0::1]/", Label.CLOUD),
        ("http://198.51.100.1", Label.CLOUD),
        ("http://198.18.0.1", Label.CLOUD),
        ("http://240.0.0.1", Label.CLOUD),
        ("http://0.0.0.0", Label.CLOUD),
        ("http://0x8080808/", Label.CLOUD),
        ("http://localhost.example.org", Label.CLOUD),
        ("http://127.0.0.1.example.org", Label.CLOUD),
        ("", Label.CLOUD),
    ],
)
def test_how_far_an_address_is_follows_from_how_it_is_written(url: str, label: Label) -> None:
    assert address_label(url) is label
