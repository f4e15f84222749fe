"""What is hidden before a text leaves, what isn't, and that no text makes it slow."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, strategies as st

from baton.core.stream_filters import RedactedTexts, Restorer
from baton.workers.cloud import redaction
from baton.workers.cloud.pasted_text import SLICE, fold_text
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
        *(f"baton-{kind}-" + "aB3_-xYz" * 5 + "q-_" for kind in ("free", "spend", "private")),
    ],
)
def test_keys_of_a_known_format_are_hidden(secret: str) -> None:
    redacted = redact(f"use {secret}, please")
    assert redacted.texts == ("use [secret key 1], please",)
    assert restored_texts(redacted) == (f"use {secret}, please",)


def test_a_private_key_that_was_cut_off_is_hidden_as_far_as_it_goes() -> None:
    cut = PEM.rsplit("\n", 1)[0]
    assert redact(f"{cut}\nand so on").texts == ("[secret key 1]\nand so on",)


@pytest.mark.parametrize("prefix", ["> ", "> > ", ">>", "| ", "# ", "    // ", ' + "'])
def test_a_private_key_in_quoted_lines_is_hidden(prefix: str) -> None:
    cut = PEM.rsplit("\n", 1)[0]
    redacted = redact(f"{prefix}{cut}\nand so on".replace("\nMII", f"\n{prefix}MII"))
    assert redacted.texts == (f"{prefix}[secret key 1]\nand so on",)
    assert redact(f"> {PEM}\n".replace("\n", "\n> ")).texts == ("> [secret key 1]\n> ",)


@pytest.mark.parametrize("before", ["1", "key", "API_KEY"])
@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "abcdefghij1234567890ABCD",
        "sk-ant-api03-" + "AAAAbbbb1234-ccccDDDD_eeee",
        "sk-or-v1-" + "0123456789abcdef" * 4,
        "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "baton-spend-" + "aB3_-xYz" * 5 + "q-_",
        AWS,
        "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
        JWT,
    ],
)
def test_a_key_is_hidden_right_after_a_word_or_a_digit(before: str, secret: str) -> None:
    assert redact(f"{before}{secret} it is").texts == (f"{before}[secret key 1] it is",)


SK = "sk-proj-abcdefghij1234567890ABCD"


@pytest.mark.parametrize(
    ("pasted", "kind"),
    [
        ("4111\xa01111\xa01111\xa01111", "card number"),
        ("4111\u202f1111\u20091111\u20031111", "card number"),
        ("4111.1111.1111.1111", "card number"),
        ("4111/1111/1111/1111", "card number"),
        ("4111\u20131111\u20131111\u20131111", "card number"),
        ("4111 - 1111 - 1111 - 1111", "card number"),
        ("3782.822463.10005", "card number"),
        ("4111 1111\n1111 1111", "card number"),
        ("4111 1111 1111\r\n  1111", "card number"),
        ("3782 822463\n10005", "card number"),
        ("4111-1111-\n> 1111-1111", "card number"),
        ("4111\u200b1111\u200b1111\u200b1111", "card number"),
        ("\uff14\uff11\uff11\uff11 1111 1111 1111", "card number"),
        ("4111&nbsp;1111&#160;1111&#xa0;1111", "card number"),
        ("DE89\xa03704\xa00044\xa00532\xa00130\xa000", "IBAN"),
        ("DE89\u20093704\u202f0044\u30000532\u20070130\u200900", "IBAN"),
        ("DE89 3704 0044\n0532 0130 00", "IBAN"),
        ("DE89.3704.0044.0532.0130.00", "IBAN"),
        ("D\u200bE89\xad370400440532013000", "IBAN"),
        ("+49\u200930\u2009901820", "phone number"),
        ("+4\u200b9 30\u2060 90\ufeff1820", "phone number"),
        ("\uff0b49 30 901820", "phone number"),
        ("\ufe6249 30 901820", "phone number"),
        ("&#43;49 30 901820", "phone number"),
        ("%2B49%2030%20901820", "phone number"),
        ("\\u002b49 30 901820", "phone number"),
        ("ann\u200b@example.org", "mail address"),
        ("ann@exam\xadple.org", "mail address"),
        ("ann\uff20example\uff0eorg", "mail address"),
        ("ann\ufe6bexample.org", "mail address"),
        ("ann&#64;example.org", "mail address"),
        ("ann&#x40;example&period;org", "mail address"),
        ("ann&commat;example.org", "mail address"),
        ("ann%40example%2Eorg", "mail address"),
        ("ann\\u0040example.org", "mail address"),
        ("ann\\x40example.org", "mail address"),
        ("j\\u00fcrgen@m\\u00fcller.example", "mail address"),
        ('"john doe"@example.org', "mail address"),
        ("\u201cjohn doe\u201d@example.org", "mail address"),
        ("ann@\nexample.org", "mail address"),
        ("ann\n  @example.org", "mail address"),
        ("ann@example.\norg", "mail address"),
        ("ann@example\r\n> .org", "mail address"),
        ("ann@my-\nfirm.example.de", "mail address"),
        (SK[:9] + "\u200b" + SK[9:], "secret key"),
        ("s\xad" + SK[1:], "secret key"),
        (SK.replace("-", "\u2011"), "secret key"),
        (SK.replace("-", "\\u002d"), "secret key"),
        (SK.replace("-", "&#45;"), "secret key"),
        (SK.replace("-", "%2D"), "secret key"),
        (SK.replace("s", "\uff53"), "secret key"),
        (AWS[:7] + "\u2060" + AWS[7:], "secret key"),
        (JWT.replace(".", "&#46;"), "secret key"),
    ],
)
def test_what_was_pasted_is_hidden_whole(pasted: str, kind: str) -> None:
    redacted = redact(f"It is {pasted} or so")
    assert redacted.texts == (f"It is [{kind} 1] or so",)
    assert restored_texts(redacted) == (f"It is {pasted} or so",)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("password:\nhunter2", "password:\n[password 1]"),
        ("> Password: \r\n>   hunter2.", "> Password: \r\n>   [password 1]."),
        ("the password is\nhunter2.", "the password is\n[password 1]."),
        ('secret:\n  "abcd1234efgh5678"', 'secret:\n  "[secret key 1]"'),
        ("password:\xa0hunter2", "password:\xa0[password 1]"),
        ("password\uff1ahunter2", "password\uff1a[password 1]"),
        ("pass\u200bword: hunter2", "pass\u200bword: [password 1]"),
        ("password&#58; hunter2", "password&#58; [password 1]"),
        ("password: \u201ctwo words\u201d", "password: [password 1]\u201d"),
        ("password: \xabtwo words\xbb", "password: [password 1]\xbb"),
        ("password: \u2018two words\u2019", "password: \u2018[password 1]\u2019"),
        ("password=&quot;two words&quot;", "password=[password 1]&quot;"),
        ('{\\"password\\": \\"two words\\"}', '{\\"password\\": \\"[password 1]\\"}'),
        ("https:\\/\\/bob:pa55w0rd@localhost", "https:\\/\\/bob:[password 1]@localhost"),
        (f"IBANDE89370400440532013000 \\n{SK}", "IBAN[IBAN 1] \\n[secret key 1]"),
        ("AB12 DE89 3704 0044 0532 0130 00", "AB12 [IBAN 1]"),
        ("Fax 0171\u2009234\u20095678", "Fax [phone number 1]"),
        ("\u202a+49 30 901820\u202c", "\u202a[phone number 1]\u202c"),
        ("my\u200b4111 1111 1111 1111", "my\u200b[card number 1]"),
    ],
)
def test_what_was_pasted_is_hidden_beside_its_name(text: str, hidden: str) -> None:
    redacted = redact(text)
    assert redacted.texts == (hidden,)
    assert restored_texts(redacted) == (text,)


def test_a_password_named_in_pasted_characters_is_hidden_everywhere() -> None:
    redacted = redact("password:\xa0hunter2!\u200bx", "It is 'hunter2!x'.")
    assert redacted.texts[1] == "It is '[password 2]'."


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
        "4111\n1111\n1111\n1111",
        "4111 1111\n1111 1111\n1111 1111",
        "4111 1111\n1111 1111 2222",
        "0 4111 1111\n1111 1111",
        "4111\t1111\t1111\t1111\t5500  0000  0000  0004",
        "lines 4111-1111 and\n1111-1111; 41111111\n11111111",
        "4\u202f111\u202f111\u202f111\u202f111\u202f111 and 4\xa0111 111 111 111 111",
        "1\u202f234\u202f567,89\xa0\u20ac, 12.345.678,90\xa0\u20ac, 50\xa0% von 1\xa0000",
        "am 17.\xa05.\xa02024 um 12:30\xa0Uhr, \xa7\xa0123\xa0Abs.\xa04, S.\xa010\u201312",
        "\xab\xa0Bonjour\xa0\xbb\u202f: il a dit\u202f\u201coui\u201d\u202f; n\xb0\xa012\u202f!",
        "https://medium.com/%40user/post.name%20a, https://registry.npmjs.org/%40babel%2fcore.js",
        '["content", "@search.score"], print("a b")@x.y',
        "lodash%404.17.21.tgz, lodash@4.17.21.tgz, printf('%5d%40s.x', 12)",
        "<p>&eacute;t&eacute; &amp; th&eacute;&nbsp;: 12&nbsp;000&nbsp;&euro; &#8211; &lt;b></p>",
        "a\n@app.route('/')\ndef f(): ...\n@functools.cache\nx\n@bot.on(1)\n@np.se.b\n",
        "write to ann at\nexample.org, a@\n\nb.org, a @\nb.org, foo@bar.\nThen",
        "Password:\nforgotten\npassword:\n  type: string\n  x-min: 8\npassword:\n  min_length8: 1",
        "the password:\n- at least 8\nPassword:\n2024-05-17 10:00 INFO, password:\n\nabc123",
        'token:\n  "abcd1234efgh": 1\nsecret:\n2024-05-17T10:00:00Z x',
        "risk-proj-alpha-2024-release-1, Risk-Assessment-2024-Version-1-final, desk-ant-2024-b",
        "disk_test_configuration2024, MSG.configuration_value1.another_attribute2, baton-free-x",
        'C:\\new\\table\\x41.txt, \\u00e9t\\u00e9, \\d+\\.\\w, \\"quoted\\", a\\/b',
        "> 4111\n> 1111\n> 1111\n> 1111\n>>> x = 1\n",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627 \U0001f468\u200d\U0001f469 co\xadop\xaderate",
        "\u7b2c\uff11\uff12\u56de\uff09\uff12\uff10\uff12\uff14\u5e74\uff15\u6708\uff1a\uff11\uff0c\uff12\uff13\uff14\u5186",
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
        ("Acme GmbH", "Acme\xa0GmbH, Ac\u200bme GmbH", "[hidden word 1], [hidden word 2]"),
        ("M\xfcller", "M\\u00fcller, M&uuml;ller", "[hidden word 1], [hidden word 2]"),
        ("Ac\xadme", "Acme", "[hidden word 1]"),
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


def test_a_number_beyond_those_that_are_checked_is_hidden_by_its_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redaction, "MAX_PHONE_CHECKS", 2)
    valid, wrong = "+49 30 901820", "+49 11 1111"
    redacted = redact(" or ".join([wrong, valid, wrong]))
    assert redacted.texts == (f"{wrong} or [phone number 1] or [phone number 2]",)


LONG_PEM = PEM.replace("MIIE", "MIIE" * 16 + "\n", 1).replace(
    "\nEp", "\n" + ("B" * 64 + "\n") * 200
)


@pytest.mark.parametrize("secret", ["ann@example.org", "+49 30 901820", SK, AWS, JWT, LONG_PEM])
@pytest.mark.parametrize("fill", ["a ", "\xe9 ", "\xa0\u200b ", "1. ", "&#64; "])
def test_what_stands_over_the_end_of_a_slice_is_found(secret: str, fill: str) -> None:
    before = fill * ((2 * SLICE - len(secret) // 2) // len(fill))
    redacted = redact(f"{before}{secret} it is")
    assert [thing.original for thing in redacted.hidden] == [secret]
    assert redacted.texts == (f"{before}{redacted.hidden[0].placeholder} it is",)


INVISIBLE = st.sampled_from(["", "", "", "\u200b", "\xad", "\u2060\u200d", "\ufeff", "\ufe0f"])
SPACES = st.sampled_from([" ", "\xa0", "\u2009", "\u202f", "\u3000", "&nbsp;", "\\u00a0", "%20"])
ORDINARY = st.text(st.sampled_from("ab \xe9\u7b2c\xa0\u200b&;%\\,"), max_size=20)


@given(
    secret=st.sampled_from([SK, AWS, "ann@example.org", "+49 30 901820", "4111 1111 1111 1111"]),
    before=ORDINARY,
    after=ORDINARY,
    data=st.data(),
)
def test_a_secret_with_pasted_characters_is_hidden_and_nothing_else(
    secret: str, before: str, after: str, data: st.DataObject
) -> None:
    pieces = [
        data.draw(SPACES if character == " " else st.just(character)) + data.draw(INVISIBLE)
        for character in secret
    ]
    pasted = "".join([*pieces[:-1], secret[-1]])
    text = f"{before}, {pasted} {after}"
    redacted = redact(text)
    assert redacted.texts == (f"{before}, {redacted.hidden[0].placeholder} {after}",)
    assert redacted.hidden[0].original == pasted
    assert restored_texts(redacted) == (text,)


@given(text=st.lists(st.one_of(ORDINARY, INVISIBLE, SPACES, st.text(max_size=3))).map("".join))
def test_each_folded_character_stands_where_it_says(text: str) -> None:
    folded = fold_text(text)
    done = 0
    for at, character in enumerate(folded.text):
        start, end = folded.original_span(at, at + 1)
        assert done <= start < end
        assert fold_text(text[start:end]).text == character
        assert fold_text(text[done:start]).text == ""
        assert folded.original_span(0, at + 1)[1] == end
        done = end
    assert fold_text(text[done:]).text == ""


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
            "\u200b",
            "\xa0",
            "&#64;",
            "ann%40",
            "\\n",
            "\n> ",
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
    "DE89", "xoxb-", "1/", "tel 1", "call me at ", "tel ", "\\u200b", "a\\u200b", "\\n> ", "&#64;",
    "a%40", "\\\\u0040", '"a b"@', "a@\\n", "a@b-\\n", "4111.", "4111\\n", "DE89\\n1", "9\\xa0",
    "password:\\n", "eyJaaaa-", "-----BEGIN PRIVATE KEY-----\\n> ", "baton-free-",
]
redaction = Redaction(["Acme GmbH", "a a a a b"])
for unit in UNITS:
    text = "".join(unit % n if "%d" in unit else unit for n in range(20_000 // len(unit)))
    redaction.redact([text + sys.argv[1]])
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["", "!", "a@"])
def test_no_text_makes_it_hang(end: str) -> None:
    """70 texts of 20 KB take 1 s; one pattern that backtracks would take minutes."""
    subprocess.run([sys.executable, "-I", "-c", HOSTILE, end], check=True, timeout=120)


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = """
import sys
from baton.workers.cloud.redaction import Redaction
Redaction(["Acme"]).redact(["Acme and ann@example.org, 12 of them"])
assert not {"phonenumbers", "stdnum"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
