"""Finds what should not leave this machine: keys, addresses, numbers, and the user's own words.

An extra, never the promise: it knows shapes, so it misses what has none (personal names). Every
pattern here starts at a fixed word or at the beginning of a run of characters and is bounded, so
that no text makes it slow; each looks at a slice at a time, so that other threads run in between.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import groupby

from baton.core.stream_filters import HiddenText, RedactedTexts
from baton.workers.cloud.pasted_text import REACH, SLICE, FoldedText, find_matches, fold_text

KEY = "secret key"
PASSWORD = "password"
MAIL = "mail address"
PHONE = "phone number"
CARD = "card number"
IBAN = "IBAN"
WORD = "hidden word"

Span = tuple[int, int, str]
"""Something to hide: its start and end in a text, and what it is."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a key looks: looked for only where its fixed `word` stands in the text."""

    word: str
    pattern: re.Pattern[str]


def _format(word: str, rest: str, before: str = "") -> Format:
    return Format(word, re.compile(before + re.escape(word) + rest))


# Words end like these prefixes (task-, risk_): after a letter, more of the key must fit.
_SK = (
    r"(?:(?<![A-Za-z])|(?=sk-(?:or-v1|ant-[a-z]{3,5}\d\d|(?:proj|svcacct|admin)"
    r"(?=[\w-]{0,60}[A-Z]))-))"
)
_STRIPE = r"(?:(?<![A-Za-z])|(?=.k_[a-z]{4}_(?=[A-Za-z]*\d)(?=[a-z\d]*[A-Z])[A-Za-z0-9]{24}))"

# Published key formats; in brackets the rule of gitleaks (config/gitleaks.toml) where there is one.
FORMATS = (
    _format("baton-", r"(?:free|spend|private)-[\w-]{43}"),  # Baton's own: server/access.py
    _format("sk-", r"(?=[A-Za-z_-]{0,60}+\d)[\w-]{20,400}", _SK),  # OpenAI, Anthropic, OpenRouter
    _format("sk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,250}", _STRIPE),  # [stripe-access-token]
    _format("rk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,250}", _STRIPE),  # [stripe-access-token]
    _format("AIza", r"[\w-]{35}"),  # Google, Gemini [gcp-api-key]
    _format("ya29.", r"[\w-]{20,400}"),  # Google OAuth 2: developers.google.com/identity
    _format("GOCSPX-", r"[\w-]{28}"),  # Google OAuth client: developers.google.com/identity
    _format("gsk_", r"[A-Za-z0-9]{40,100}"),  # Groq: console.groq.com/keys
    _format("xai-", r"[A-Za-z0-9]{40,120}"),  # xAI: docs.x.ai
    _format("pplx-", r"[A-Za-z0-9]{40,100}"),  # Perplexity [perplexity-api-key]
    _format("hf_", r"[A-Za-z0-9]{30,40}"),  # Hugging Face [huggingface-access-token]
    _format("nvapi-", r"[\w-]{40,100}"),  # NVIDIA: build.nvidia.com
    _format("AKIA", r"[A-Z2-7]{16}(?![A-Za-z0-9])"),  # AWS [aws-access-token]
    _format("ASIA", r"[A-Z2-7]{16}(?![A-Za-z0-9])"),  # AWS [aws-access-token]
    _format("ghp_", r"[A-Za-z0-9]{36,255}"),  # GitHub [github-pat]
    _format("gho_", r"[A-Za-z0-9]{36,255}"),  # GitHub [github-oauth]
    _format("ghu_", r"[A-Za-z0-9]{36,255}"),  # GitHub [github-app-token]
    _format("ghs_", r"[A-Za-z0-9]{36,255}"),  # GitHub [github-app-token]
    _format("ghr_", r"[A-Za-z0-9]{36,255}"),  # GitHub [github-refresh-token]
    _format("github_pat_", r"\w{50,255}"),  # GitHub [github-fine-grained-pat]
    _format("glpat-", r"[\w-]{20,300}"),  # GitLab [gitlab-pat]
    _format("xox", r"[abeoprs]-[A-Za-z0-9-]{10,250}"),  # Slack [slack-bot-token, ...]
    _format("xapp-", r"\d-[A-Za-z0-9-]{20,250}"),  # Slack [slack-app-token]
    _format("https://hooks.slack.com/", r"[\w/-]{30,120}"),  # Slack [slack-webhook-url]
    _format("npm_", r"[A-Za-z0-9]{36}"),  # npm [npm-access-token]
    _format("pypi-", r"AgE[\w-]{50,400}"),  # PyPI [pypi-upload-token]
    _format("dop_v1_", r"[a-f0-9]{64}"),  # DigitalOcean [digitalocean-pat]
    _format("SG.", r"[\w-]{16,32}\.[\w-]{16,64}", r"(?<![A-Za-z])"),  # [sendgrid-api-token]
    _format("shpat_", r"[a-fA-F0-9]{32}"),  # Shopify [shopify-access-token]
    _format("AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),  # age [age-secret-key]
    # RFC 7519; only near the beginning of a run, or eyJeyJeyJ would take long.
    _format("eyJ", r"[\w-]{8,4000}\.eyJ[\w-]{8,8000}\.[\w-]{8,2000}", r"(?<![\w-]{12})"),
    Format(
        "-----BEGIN ",  # RFC 7468, and PGP's; one that was cut off counts as far as it goes
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----)[\s\S]){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:\W{0,16}[A-Za-z0-9+/=]{20,100}){0,250})"
        ),
    ),
)

MAX_KEY_CHARS = 30_000
"""More than a private key has: the longest that a format finds."""

_BREAK = r"[ \t]{0,8}\r?\n[ \t>]{0,16}"
"""A line break, also in a mail that is quoted."""
_LOGIN = re.compile(r"://[^\s/:@'\"]{0,100}:([^\s/@'\"]{1,200})@")
_PLACEHOLDER = re.compile(
    rf"\[(?:{'|'.join((KEY, PASSWORD, MAIL, PHONE, CARD, IBAN, WORD))}) \d{{1,9}}\]"
)
_BEARER = re.compile(r"[Bb](?<!\w.)(?i:earer|asic)[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,4000})")
_SECRET_NAMES = (
    *("pass(?:word|wd|phrase|wort|code)?", "kennwort", "contraseña", "mot de passe", "pwd"),
    *("secret", "token", "credentials?", "api[_ -]?key", "secret[_-]?key", "signing[_-]?key"),
    *(f"{name}[_-]?key" for name in ("access", "account", "auth", "client", "private")),
)
# By their first letters: to ignore the case of those, too, takes three times as long.
_ANY_NAME = "|".join(
    f"[{first}{first.upper()}](?i:{'|'.join(name[1:] for name in names)})"
    for first, names in groupby(sorted(_SECRET_NAMES), key=lambda name: name[0])
)
_ASSIGNED = re.compile(
    rf"(?P<name>{_ANY_NAME})"
    r"['\"]?[ \t]{0,4}(?P<sign>:=|=>|={1,2}|:|\b(?i:is)\b)[ \t]{0,4}"
    rf"(?P<broken>{_BREAK})?"
    r"(?:(?P<quote>['\"`\u2018])(?P<quoted>[^\n]{3,200}?)(?:(?P=quote)|\u2019)|(?P<bare>[^\s'\"`]{4,400}))"
)
_PASSWORD_NAME = re.compile(r"(?i)pass|pwd|kennwort|contraseña|mot de")
_TOKEN = re.compile(r"[\w.~+/=-]{0,400}")
_NUMBER = re.compile(r"[\d.,_]+(?:e[-+]?\d+)?", re.IGNORECASE)
_DIGIT = re.compile(r"[^(\[]*\d")
_BARE_VALUE = re.compile(r"[^\s'\"`]{4,400}")
# What may be a value on the line after its name: letters and a digit, and no date.
_NEXT_LINE = re.compile(r"(?!\d{4}-\d)(?=[^(\[]*\d)[^(\[]*[^\W\d_]")
_TRAILING = ".,;:!?)]}>"
_NO_SECRET = re.compile(
    r"(?i)(?:(?:an? )?(?:str(?:ing)?|bytes|bool(?:ean)?|int(?:eger)?|float|any|object|text|null|nil"
    r"|none|true|false|undefined|required|optional|hidden|empty|missing|wrong|invalid|incorrect"
    r"|correct|changed?|password|passwort|secret|token|input|field|value|your[\w-]*|the|not|too)"
    r"(?:[\[(<|?].*)?$|[*.x_-]{3,}$|<[^>]*>?$|\[|%[(s]|\$[\w({]|\{)"
)
_CODE = re.compile(r"[\w.]*[\w\]][(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|[&!@/]?[a-z_]+;?$")

_LOCAL = r"(?<![\w.%+'-])(?!git@)[\w.%+'-]{1,64}+"
_MAIL = re.compile(
    rf"(?:{_LOCAL}|(?<!\w)\"\w[^\"\n@]{{0,63}}\")@(?!\d+\.\d)(?:[\w-]{{1,63}}\.){{1,8}}"
    r"(?!(?:png|jpe?g|gif|svg|webp|py|js)\b)[^\W\d_]{2,24}(?![\w-])"
)
_BROKEN_MAIL = re.compile(  # of common ends only: a decorator stands on a line of its own, too
    rf"{_LOCAL}(?:{_BREAK})?@(?:{_BREAK})?(?:[\w-]{{1,63}}(?:\.(?:{_BREAK})?|{_BREAK}\.|(?<=-){_BREAK})){{1,8}}?"
    r"(?:com|org|net|edu|gov|info|example|[a-z]{2})(?![\w(-]|\.\w)"
)
_PHONE = re.compile(
    r"[+(\d](?<![\w.,#$€£¥%+*&?@-].)(?!\d?[-/.]\d{1,2}[-/.]\d{4}(?!\d))(?!\d{3}[-/.]\d{1,2}[-/.]\d)"
    r"(?:(?<!\+)|(?<=\+)[(\d])(?:[ .()/\u2010-\u2013-]{0,3}\d){6,17}(?![\w%€$£°]|[.,:/-]\d)"
)
_INTERNATIONAL = re.compile(r"\+|\(?00(?=[1-9])")
_PHONE_WORDS = re.compile(
    r"(?i)(?:\b(?:tel|telefon|telephone|téléphone|teléfono|telefono|phone|ph|mobile?|mob|cell|fax"
    r"|handy|whatsapp|sms|call|anruf\w*|rufnummer|mobilfunk|móvil|numéro|dial)\b|[☎📞📱✆])"
    r"[ :.(#=]{0,3}(?:(?:me|us|him|her|at|on|to|number|nummer|no|nr|is)[ :.(#=]{1,3}){0,3}$"
)
_NATIONAL = re.compile(
    r"\(\d{2,5}\) ?\d{2,4}[ -]?\d{2,4}|0\d{1,5}[ /-]\d[\d -]{4,}|\d{3}([-.])\d{3}\1\d{4}$"
)
REGIONS = ("US", "GB", "DE", "FR", "ES", "IT", "NL", "AT", "CH", "AU", "IN", "BR", "JP", "PL")
"""The countries that a number without a country code may be from."""
MAX_PHONE_CHECKS = 20_000
"""A check takes 30 to 60 µs. In a text with more numbers the rest is hidden by its shape alone."""

_CARDS = (
    re.compile(r"\d(?<![\w.,-].)(?!\d{0,2}(?: \d{3})+(?!\d))(?:[ -]?\d){11,18}(?![\w-]|[.,]\d)"),
    re.compile(
        r"\d(?<![\w.,/-].)\d{3}(?P<gap> ?[./\u2010-\u2013-] ?)(?:\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
        r"(?:(?P=gap)\d{1,3})?|\d{6}(?P=gap)\d{4,5})(?![\w/-]|[.,]\d)"
    ),
    re.compile(  # over two lines, and no part of a table
        rf"\d(?<![\w.,/-].)(?<!\d[ \t\n].)\d{{3}}(?:[ .-]\d{{4,6}}){{0,2}}-?{_BREAK}\d{{4,6}}"
        r"(?:[ .-]\d{4,5}){0,2}(?![\w/-]|[.,]\d|\s{1,2}\d(?!\d/))"
    ),
)
_CARD_LENGTHS = (  # ISO/IEC 7812: an issuer's first digits, and how long its numbers are
    (re.compile(r"4"), {13, 16, 19}),  # Visa
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),  # Mastercard
    (re.compile(r"3[47]"), {15}),  # American Express
    (re.compile(r"3(?:0[0-5]|[689])"), {14, 16, 19}),  # Diners
    (re.compile(r"6(?:011|5|4[4-9])|62|81"), {16, 17, 18, 19}),  # Discover, UnionPay
    (re.compile(r"35(?:2[89]|[3-8])"), {16}),  # JCB
    (re.compile(r"50(?:18|20|38)|5893|6304|676[123]|6759"), {12, 13, 14, 15, 16, 17, 18, 19}),
)
_IBAN_GAP = rf"(?:[ ./\u2010-\u2013-]|{_BREAK})?"
_IBAN = re.compile(  # from its two digits on
    r"[0-9](?<=(?:(?<![A-Za-z0-9])|(?<=IBAN))[A-Za-z]{2}[0-9])[0-9]"
    rf"(?=(?:{_IBAN_GAP}[A-Za-z0-9]){{11}})"
)


class Redaction:
    """Hides the shapes it knows, and the user's own `words` in any case."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = _compile_words(words)

    def redact(self, texts: Sequence[str]) -> RedactedTexts:
        """Return the texts with placeholders; the same thing always gets the same one.

        Placeholders are numbered in the order in which things first appear, so a conversation that
        continues keeps those of its earlier turns.
        """
        found: list[dict[int, list[Span]]] = [defaultdict(list) for _ in texts]
        views = [(view, number) for number, text in enumerate(texts) for view in _views(text)]
        secrets: dict[str, str] = {}
        for find in (self._find, lambda text: _find_repeated(text, secrets)):
            for view, number in views:
                for start, end, kind in find(view.text):
                    first, last = view.original_span(start, end)
                    found[number][first // SLICE].append((first, last, kind))
                    if kind in (KEY, PASSWORD):
                        secrets[view.text[start:end]] = kind
        placeholders = _Placeholders(texts)
        done = [
            _replace_spans(text, _merge_overlaps(spans), placeholders)
            for text, spans in zip(texts, found, strict=True)
        ]
        return RedactedTexts(tuple(done), tuple(placeholders.hidden.values()))

    def _find(self, text: str) -> Iterator[Span]:
        yield from _find_keys(text)
        yield from _find_assigned(text)
        yield from _find_all(_MAIL, text, MAIL, "@")
        yield from _find_all(_BROKEN_MAIL, text, MAIL, "@")
        yield from _find_ibans(text)
        yield from _find_cards(text)
        yield from _find_phones(text)
        for word in self._words:
            yield from _find_all(word, text, WORD)


def _views(text: str) -> tuple[FoldedText, ...]:
    """Return a text as it is, where invisible characters part words, and folded if that differs."""
    folded = fold_text(text)
    return (folded,) if folded.text == text else (FoldedText(text), folded)


def _merge_overlaps(found: dict[int, list[Span]]) -> Iterator[Span]:
    """Yield the spans in order, those that overlap as one: of the kind of the longest."""
    last, longest = (0, 0, ""), 0
    for number in sorted(found):  # by slice: to sort all in one call would hold up other threads
        for start, end, kind in sorted(found.pop(number), key=lambda span: (span[0], -span[1])):
            if start < last[1]:
                last = (last[0], max(last[1], end), kind if end - start > longest else last[2])
                longest = max(longest, end - start)
            else:
                if last[1]:
                    yield last
                last, longest = (start, end, kind), end - start
    if last[1]:
        yield last


class _Placeholders:
    """Gives each thing its placeholder, and never one that stands in the texts already."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._taken = {match[0] for text in texts for match in find_matches(_PLACEHOLDER, text)}
        self._counts: Counter[str] = Counter()
        self.hidden: dict[str, HiddenText] = {}

    def placeholder(self, original: str, kind: str) -> str:
        if original not in self.hidden:
            self.hidden[original] = HiddenText(self._new(kind), original, kind)
        return self.hidden[original].placeholder

    def _new(self, kind: str) -> str:
        while True:
            self._counts[kind] += 1
            if (name := f"[{kind} {self._counts[kind]}]") not in self._taken:
                return name


def _replace_spans(text: str, spans: Iterable[Span], placeholders: _Placeholders) -> str:
    replaced = StringIO()
    done = 0
    for start, end, kind in spans:
        replaced.write(text[done:start] + placeholders.placeholder(text[start:end], kind))
        done = end
    return replaced.getvalue() + text[done:]


def _find_all(
    pattern: re.Pattern[str], text: str, kind: str, word: str = "", reach: int = REACH
) -> Iterator[Span]:
    for match in find_matches(pattern, text, word, reach):
        yield match.start(), match.end(), kind


def _compile_words(words: Sequence[str]) -> list[re.Pattern[str]]:
    """Return what finds the user's words; those of scripts without spaces anywhere."""
    forms = {unicodedata.normalize(form, word.strip()) for form in ("NFC", "NFD") for word in words}
    forms |= {fold_text(form).text for form in forms}
    wanted = sorted(filter(str.strip, forms), key=len, reverse=True)
    parts = (wanted[at : at + 10] for at in range(0, len(wanted), 10))  # 10 in a slice take 8 ms
    return [re.compile("|".join(map(_word_pattern, part)), re.IGNORECASE) for part in parts]


def _word_pattern(word: str) -> str:
    body = r"\s{1,40}".join(map(re.escape, word.split()))
    before = r"(?<!\w)" if word[0] < "\u0e00" else ""
    after = r"(?!\w)" if word[-1] < "\u0e00" else ""
    return before + body + after


def _find_keys(text: str) -> Iterator[Span]:
    for known in FORMATS:
        yield from _find_all(known.pattern, text, KEY, known.word, MAX_KEY_CHARS)
    for match in find_matches(_BEARER, text):
        if _is_random(match[1]):
            yield match.start(1), match.end(1), KEY
    for match in find_matches(_LOGIN, text, "://"):
        if not _NO_SECRET.match(match[1]):
            yield match.start(1), match.end(1), PASSWORD


def _find_assigned(text: str) -> Iterator[Span]:
    """Find what stands after `password=`, `token:` and their like."""
    for match in find_matches(_ASSIGNED, text):
        sure = _PASSWORD_NAME.match(match["name"]) is not None
        group = "quoted" if match["quote"] else "bare"
        value = match[group]
        if group == "bare":
            value = value.rstrip(_TRAILING) if sure else _TOKEN.findall(value)[0]
        start = match.start(group)
        after = text[start + len(value) : start + len(value) + 1]
        if _NO_SECRET.match(value) or value.lower() == match["name"].lower():
            continue
        if match["broken"] and (
            not _NEXT_LINE.match(value) or ":" in text[match.end() - 1 : match.end() + 1]
        ):
            continue
        if _is_password(match, value, after) if sure else _is_token(value, after):
            yield start, start + len(value), PASSWORD if sure else KEY


def _is_password(match: re.Match[str], value: str, after: str) -> bool:
    """Whether a value is a password, and no expression or sentence that continues."""
    if match["quote"]:
        return len(value) >= 4 and (match["sign"] != "is" or " " not in value)
    if len(value) < 4 or (_CODE.match(value) and not _DIGIT.match(value)):
        # Bare letters are one at the end of a line, or in an environment or an address.
        ends = after in "\r\n" or (match["sign"] == "=" and after in " \t;&")
        return value.isalpha() and len(value) >= 4 and match["sign"] != "is" and ends
    return match["sign"] not in ("is", ":") or not value.isalpha()


def _is_token(value: str, after: str) -> bool:
    if len(value) < 10 or " " in value or after == "(" or _NUMBER.fullmatch(value):
        return False
    return _is_random(value)


def _is_random(value: str) -> bool:
    """Whether a value looks random: letters and digits, hardly repeated."""
    if not (any(c.isdigit() for c in value) and any(c.isalpha() for c in value)):
        return False
    value = value[:100]
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= 3


def _find_repeated(text: str, secrets: dict[str, str]) -> Iterator[Span]:
    """Find what a name gave away in one place, and stands alone in another."""
    for match in find_matches(_BARE_VALUE, text) if secrets else ():
        value = match.group().rstrip(_TRAILING)
        if len(value) >= 6 and (kind := secrets.get(value)):
            yield match.start(), match.start() + len(value), kind


def _find_ibans(text: str) -> Iterator[Span]:
    for match in find_matches(_IBAN, text):
        start = match.start() - 2
        rest = _iban_rest(text[start : start + 2].upper()).match(text, match.end())
        if rest:
            from stdnum import iban

            plain = re.sub(r"[^A-Za-z0-9]", "", text[start : rest.end()])
            if iban.is_valid(plain, check_country=False):
                yield start, rest.end(), IBAN


@cache
def _iban_rest(country: str) -> re.Pattern[str]:
    """Return how a country's IBANs continue after the four first characters."""
    from stdnum import numdb

    classes = {"n": "[0-9]", "a": "[A-Za-z]", "c": "[A-Za-z0-9]"}
    structure = numdb.get("iban").info(country)[0][1].get("bban", "")
    parts = re.findall(r"(\d+)!([nac])", structure)
    rest = "".join(f"(?:{_IBAN_GAP}{classes[kind]}){{{size}}}" for size, kind in parts)
    return re.compile(rest + r"(?![A-Za-z0-9])" if parts else r"(?!)")


def _find_cards(text: str) -> Iterator[Span]:
    for pattern in _CARDS:
        for match in find_matches(pattern, text):
            digits = re.sub(r"\D", "", match.group())
            if any(len(digits) in sizes and start.match(digits) for start, sizes in _CARD_LENGTHS):
                from stdnum import luhn

                if luhn.is_valid(digits):
                    yield match.start(), match.end(), CARD


def _find_phones(text: str) -> Iterator[Span]:
    """Find numbers with a country code, and others that are written or announced like one."""
    regions = list(REGIONS)
    left = MAX_PHONE_CHECKS
    for match in find_matches(_PHONE, text):
        number = match.group()
        tried = regions
        if _INTERNATIONAL.match(number):
            number, tried = "+" + number.lstrip("(+0"), ["ZZ"]
        elif not _NATIONAL.match(number) and not _PHONE_WORDS.search(
            text, max(0, match.start() - 40), match.start()
        ):
            continue
        valid = left <= 0 or _is_valid_anywhere(number, tried)
        left -= 1 if valid else len(tried)
        if valid:
            yield match.start(), match.end(), PHONE


def _is_valid_anywhere(number: str, regions: list[str]) -> bool:
    for region in regions:
        if _is_phone(number, region):
            regions.remove(region)
            regions.insert(0, region)  # the next one in a list is probably from there, too
            return True
    return False


def _is_phone(number: str, region: str) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, region))
    except phonenumbers.NumberParseException:
        return False
