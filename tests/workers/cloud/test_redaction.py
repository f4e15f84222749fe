"""What is hidden before a text leaves, what isn't, and that no text makes it slow."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, strategies as st

from baton.core.redaction_types import RedactedTexts, Restorer
from baton.workers.cloud.redaction import Redaction

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA1234567890",
        "-----END RSA PRIVATE KEY-----",
    ]
)


def redact(*texts: str, words: tuple[str, ...] = ()) -> RedactedTexts:
    return Redaction(words).redact(texts)


def restored_texts(redacted: RedactedTexts) -> tuple[str, ...]:
    texts = []
    for text in redacted.texts:
        restorer = Restorer(redacted.hidden)
        texts.append(restorer.feed(text) + restorer.flush())
    return tuple(texts)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "abcdefghij1234567890ABCD",
        "sk-ant-api03-" + "AAAAbbbb1234-ccccDDDD_eeee",
        "sk-or-v1-" + "0123456789abcdef" * 4,
        "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "gsk_" + "a1B2" * 13,
        "xai-" + "a1B2" * 20,
        "hf_" + "abcdefghijABCDEFGHIJabcdefghijABCD",
        AWS,
        "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_" + "11ABCDEFG0abcdefghijkl_" + "m" * 59,
        "glpat-" + "abcdefghij0123456789",
        "xoxb-" + "123456789012-1234567890123-abcdefghijABCDEFGHIJabcd",
        "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
        "SG." + "abcdefghijklmnopqrstuv." + "a" * 43,
        JWT,
        PEM,
        PEM.replace("RSA ", "").replace("\n", "\\n"),
    ],
)
def test_keys_of_a_known_format_are_hidden(secret: str) -> None:
    redacted = redact(f"use {secret}, please")
    assert redacted.texts == ("use [secret key 1], please",)
    assert restored_texts(redacted) == (f"use {secret}, please",)


def test_a_private_key_that_was_cut_off_is_hidden_as_far_as_it_goes() -> None:
    cut = PEM.rsplit("\n", 1)[0]
    assert redact(f"{cut}\nand so on").texts == ("[secret key 1]\nand so on",)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter2", "hunter2"),
        ('DB_PASSWORD: "two words"', "two words"),
        ("Password: swordfish\n", "swordfish"),
        ("PASSWORD=swordfish USER=bob", "swordfish"),
        ("the password is hunter2.", "hunter2"),
        ("Passwort: geheim123!x", "geheim123!x"),
        ("https://example.org/?a=1&password=correct-horse&b", "correct-horse&b"),
        ("postgres://bob:pa55w0rd@localhost/db", "pa55w0rd"),
        ('api_key = "abcd1234efgh5678"', "abcd1234efgh5678"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ('{"token": "9f8e7d6c5b4a39281706"}', "9f8e7d6c5b4a39281706"),
    ],
)
def test_what_stands_after_the_name_of_a_secret_is_hidden(text: str, secret: str) -> None:
    redacted = redact(text)
    assert secret not in redacted.texts[0]
    assert len(redacted.hidden) == 1
    assert restored_texts(redacted) == (text,)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write to ann.lee+x@example.co.uk.", "mail address"),
        ("jürgen@müller.example", "mail address"),
        ("Call +49 30 901820", "phone number"),
        ("Tel:+49 30 901820-0", "phone number"),
        ("0049 (30) 901820", "phone number"),
        ("(415) 555-2671 is it", "phone number"),
        ("415-555-2671", "phone number"),
        ("mobile 4155552671", "phone number"),
        ("tel. 0171 2345678", "phone number"),
        ("020 7946 0018", "phone number"),
        ("Tél. 01 23 45 67 89", "phone number"),
        ("card 4111 1111 1111 1111.", "card number"),
        ("5500-0000-0000-0004", "card number"),
        ("378282246310005", "card number"),
        ("DE89 3704 0044 0532 0130 00 BIC COBADEFF", "IBAN"),
        ("gb29nwbk60161331926819", "IBAN"),
        ("FR14 2004 1010 0505 0001 3M02 606", "IBAN"),
    ],
)
def test_personal_data_is_hidden(text: str, kind: str) -> None:
    redacted = redact(text)
    assert [thing.kind for thing in redacted.hidden] == [kind]
    assert f"[{kind} 1]" in redacted.texts[0]
    assert restored_texts(redacted) == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "On 2024-05-17, 10.12.2024, 01-25-2025 and 5/17/2024 at 12:30:45",
        "version 10.12.2024, 1.2.3-rc.4, build 20240517.1234",
        "$1,234,567.89, 1.234.567,89 €, 1 234 567 and 1234567890",
        "192.168.100.200, 2001:db8::8a2e:370:7334, 00:1a:2b:3c:4d:5e",
        "timestamps 1700000000, 1700000000000 and 1700000000000000",
        "ISBN 978-3-16-148410-0, 4111 1111 1111 1112, DE88 3704 0044 0532 0130 00",
        "3.14159265358979, 6.02214076e23, 0x1234567890, id=0123456789",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "def login(user, password: str = None, token: Optional[str] = None): ...",
        "login(user=user, password=password, token=self.token)",
        "password = getpass('Password: ')",
        'password = os.environ["PASSWORD"]',
        "max_tokens = 4096, tokens: 12345678, cost_per_token: 1.25e-07",
        "token = tokenizer.next_token()",
        "password: string\ntoken: string\nsecret: null\npassword: ${PASSWORD}\nkey: <your-key>",
        "Your password is wrong. The password: it should be long. A secret: nobody knows.",
        "the secret is out, the token is invalid and the password is not correct",
        "git@github.com:user/repo.git, icon@2x.png, @decorator, a @ b",
        "sk-learn, sk-fading-circle-container, risk-1234567890123456789012",
        "rows 10 20 30 40 50 60 70 80 90, matrix 1 0 0 1 0 1 1 0",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact(text) == RedactedTexts((text,))


@pytest.mark.parametrize(
    ("word", "text", "hidden"),
    [
        ("Acme GmbH", "ACME  gmbh pays Acme GmbHs", "[hidden word 1] pays Acme GmbHs"),
        ("C++", "We write C++ and C+.", "We write [hidden word 1] and C+."),
        ("Ann", "Ann and Anna", "[hidden word 1] and Anna"),
        ("田中", "田中さん", "[hidden word 1]さん"),
        ("Café", "the Cafe\u0301 there", "the [hidden word 1] there"),
        ("  ", "nothing at all", "nothing at all"),
        ("a.b", "a.b acb", "[hidden word 1] acb"),
    ],
)
def test_the_persons_own_words_are_hidden_whole_in_any_case(
    word: str, text: str, hidden: str
) -> None:
    assert redact(text, words=(word,)).texts == (hidden,)


def test_the_same_thing_has_the_same_placeholder_in_all_texts_and_turns() -> None:
    first = redact("I am ann@example.org", "and bob@example.org, not ann@example.org")
    assert first.texts == ("I am [mail address 1]", "and [mail address 2], not [mail address 1]")
    assert first.summary() == "2 mail addresses"
    later = redact(
        "I am ann@example.org", "and bob@example.org, not ann@example.org", "c@d.example"
    )
    assert later.texts[:2] == first.texts
    assert later.hidden[:2] == first.hidden


def test_a_password_that_was_named_once_is_hidden_everywhere() -> None:
    redacted = redact("Is hunter2! a good one?", "password=hunter2!x", "It is 'hunter2!x'.")
    assert redacted.texts == (
        "Is hunter2! a good one?",
        "password=[password 1]",
        "It is '[password 1]'.",
    )


def test_a_placeholder_that_stands_in_a_text_already_is_not_used() -> None:
    text = (
        "[mail address 1] is what I typed, and ann@example.org and [mail address 3]; bob@d.example"
    )
    redacted = redact(text)
    assert [thing.placeholder for thing in redacted.hidden] == [
        "[mail address 2]",
        "[mail address 4]",
    ]
    assert restored_texts(redacted) == (text,)


def test_of_two_that_overlap_the_longer_one_names_it_and_nothing_is_left_over() -> None:
    redacted = redact("mail ann@acme.example now", words=("acme", "mail ann"))
    assert redacted.texts == ("[mail address 1] now",)


PIECES = st.sampled_from(
    [
        *("ann@example.org", "+49 30 901820", "4111 1111 1111 1111", "password=hunter2", "token: "),
        *(
            "DE89 3704 0044 0532 0130 00",
            "[mail address 1]",
            "[",
            "secret key 1]",
            "Acme",
            " ",
            "\n",
        ),
        *(
            "sk-proj-abcdefghij1234567890ABCD",
            AWS,
            PEM,
            JWT,
            ".",
            "://a:b@",
            "0",
            "'",
            '"',
            "é",
            "x",
        ),
    ]
)


@given(texts=st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
@example(texts=["[", "secret key 1]sk-proj-abcdefghij1234567890ABCD"])
def test_all_that_is_hidden_is_gone_from_every_text_and_comes_back(texts: list[str]) -> None:
    redacted = redact(*texts, words=("Acme",))
    assert restored_texts(redacted) == tuple(texts)
    for thing in redacted.hidden:
        assert not any(thing.placeholder in text for text in texts)
        assert any(thing.original in text for text in texts)
    assert redact(*texts, words=("Acme",)) == redacted


HOSTILE = """
import sys
from baton.workers.cloud.redaction import Redaction

UNITS = [
    "a", "1", "1 ", "1-", "+1", "+1 ", "+49 30 901820 ", "0171 2345678\\n", "415-555-2671 ",
    "@", "a@", "a@b", "a@b.", "a.", "eyJ", "eyJ.", "eyJaaaaaaaaaa.", "eyJaaaaaaaaaa.eyJaaaaaaaaaa.",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA1234567890\\n",
    "-----BEGIN ", "password=", "password='", 'password="a', "token: ", "secret=aaaa1234bbbb ",
    "password=hunter%d\\n", "://", "://a:", "://a:b@", "Bearer ", "DE89 3704 0044 0532 0130",
    "4111 1111 1111 1111 ", "4111", "(", "(0", "+00", "a a ", "[mail address 1]", "sk-", "sk-a",
    "SG.aaaaaaaaaaaaaaaaaaaaaa.", "https://hooks.slack.com/", "password is ", "mot de passe", "`",
    "DE89", "xoxb-", "1/", "tel 1", "call me at ", "tel ",
]
redaction = Redaction(["Acme GmbH", "a a a a b"])
for unit in UNITS:
    text = "".join(unit % n if "%d" in unit else unit for n in range(20_000 // len(unit)))
    redaction.redact([text + sys.argv[1]])
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["", "!", "a@"])
def test_no_text_makes_it_hang(end: str) -> None:
    """50 texts of 20 KB take 1 s; one pattern that backtracks would take minutes."""
    subprocess.run([sys.executable, "-I", "-c", HOSTILE, end], check=True, timeout=120)


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = """
import sys
from baton.workers.cloud.redaction import Redaction
Redaction(["Acme"]).redact(["Acme and ann@example.org, 12 of them"])
assert not {"phonenumbers", "stdnum"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
