"""Finds what should not leave this machine: keys, addresses, numbers, and the person's own words.

An extra, never the promise: it knows shapes, so it misses what has none (personal names). Every
pattern here starts at a fixed word or at the beginning of a run of characters and is bounded, so
that no text makes it slow.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from baton.core.redaction_types import HiddenText, RedactedTexts

KEY = "secret key"
PASSWORD = "password"
MAIL = "mail address"
PHONE = "phone number"
CARD = "card number"
IBAN = "IBAN"
WORD = "hidden word"


@dataclass(frozen=True, slots=True)
class HiddenSpan:
    """Something to hide: where it stands in a text, and what it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Format:
    """How a key looks: looked for only where its fixed `word` stands in the text."""

    word: str
    pattern: re.Pattern[str]


def _format(word: str, rest: str, before: str = r"(?<![A-Za-z0-9])") -> Format:
    return Format(word, re.compile(before + re.escape(word) + rest))


# Published key formats; in brackets the rule of gitleaks (config/gitleaks.toml) where there is one.
FORMATS = (
    _format("sk-", r"(?=[\w-]{0,60}\d)[\w-]{20,400}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek
    _format("sk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,250}"),  # Stripe [stripe-access-token]
    _format("rk_", r"(?:live|test|prod)_[A-Za-z0-9]{10,250}"),  # Stripe [stripe-access-token]
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
    _format("SG.", r"[\w-]{16,32}\.[\w-]{16,64}"),  # SendGrid [sendgrid-api-token]
    _format("shpat_", r"[a-fA-F0-9]{32}"),  # Shopify [shopify-access-token]
    _format("AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),  # age [age-secret-key]
    _format("eyJ", r"[\w-]{8,4000}\.eyJ[\w-]{8,8000}\.[\w-]{8,2000}", r"(?<![\w.-])"),  # RFC 7519
    Format(
        "PRIVATE KEY",  # RFC 7468, and PGP's; one that was cut off counts as far as it goes
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----)[\s\S]){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:\s{0,4}(?:\\n)?[A-Za-z0-9+/=]{20,100})*)"
        ),
    ),
)

_LOGIN = re.compile(r"://[^\s/:@'\"]{0,100}:([^\s/@'\"]{1,200})@")
_BEARER = re.compile(r"(?i)\b(?:bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,4000})")
_ASSIGNED = re.compile(
    r"(?i)(?P<name>pass(?:word|wd|phrase|wort|code)?|kennwort|contraseña|mot de passe|pwd"
    r"|secret|token|api[_ -]?key|(?:access|account|auth|client|secret|private|signing)[_-]?key"
    r"|credentials?)"
    r"['\"]?[ \t]{0,4}(?P<sign>:=|=>|={1,2}|:|\bis\b)[ \t]{0,4}"
    r"(?:(?P<quote>['\"`])(?P<quoted>[^\n]{3,200}?)(?P=quote)|(?P<bare>[^\s'\"`]{4,400}))"
)
_PASSWORD_NAME = re.compile(r"(?i)pass|pwd|kennwort|contraseña|mot de")
_TOKEN = re.compile(r"[\w.~+/=-]{0,400}")
_NUMBER = re.compile(r"[\d.,_]+(?:e[-+]?\d+)?", re.IGNORECASE)
_DIGIT = re.compile(r"[^(\[]*\d")
_BARE_VALUE = re.compile(r"[^\s'\"`]{4,400}")
_TRAILING = ".,;:!?)]}>"
_NO_SECRET = re.compile(
    r"(?i)(?:(?:an? )?(?:str(?:ing)?|bytes|bool(?:ean)?|int(?:eger)?|float|any|object|text|null|nil"
    r"|none|true|false|undefined|required|optional|hidden|empty|missing|wrong|invalid|incorrect"
    r"|correct|changed?|password|passwort|secret|token|input|field|value|your[\w-]*|the|not|too)"
    r"(?:[\[(<|?].*)?$|[*.x_-]{3,}$|<[^>]*>?$|\[|%[(s]|\$[\w({]|\{)"
)
_CODE = re.compile(r"[\w.]*[\w\]][(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|[&!@/]?[a-z_]+;?$")

_MAIL = re.compile(
    r"(?<![\w.%+'-])(?!git@)[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}(?!(?:png|jpe?g|gif|svg|webp|py|js)\b)"
    r"[^\W\d_]{2,24}(?![\w-])"
)
_PHONE = re.compile(
    r"(?<![\w.,#$€£¥%+*&?@-])(?!\d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d))(?!\d{4}[-/.]\d{1,2}[-/.]\d)"
    r"(?P<sign>\+|\(?00(?=[1-9]))?"
    r"[(\d](?:[ \u00a0.()/\u2010-\u2013-]{0,3}\d){6,17}(?![\w%€$£°]|[.,:/-]\d)"
)
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

_CARD = re.compile(r"(?<![\w.,-])\d(?:[ -]?\d){11,18}(?![\w-]|[.,]\d)")
_CARD_LENGTHS = (  # ISO/IEC 7812: an issuer's first digits, and how long its numbers are
    (re.compile(r"4"), {13, 16, 19}),  # Visa
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),  # Mastercard
    (re.compile(r"3[47]"), {15}),  # American Express
    (re.compile(r"3(?:0[0-5]|[689])"), {14, 16, 19}),  # Diners
    (re.compile(r"6(?:011|5|4[4-9])|62|81"), {16, 17, 18, 19}),  # Discover, UnionPay
    (re.compile(r"35(?:2[89]|[3-8])"), {16}),  # JCB
    (re.compile(r"50(?:18|20|38)|5893|6304|676[123]|6759"), {12, 13, 14, 15, 16, 17, 18, 19}),
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")


class Redaction:
    """Hides the shapes it knows, and the person's own `words` in any case."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = _compile_words(words)

    def redact(self, texts: Sequence[str]) -> RedactedTexts:
        """Return the texts with placeholders; the same thing always gets the same one.

        Placeholders are numbered in the order in which things first appear, so a conversation that
        goes on keeps those of its earlier turns.
        """
        found = [list(self._find(text)) for text in texts]
        secrets = {
            text[find.start : find.end]: find.kind
            for text, finds in zip(texts, found, strict=True)
            for find in finds
            if find.kind in (KEY, PASSWORD)
        }
        placeholders = _Placeholders(texts)
        done = []
        for text, finds in zip(texts, found, strict=True):
            if secrets:  # given away by a name in one place, and standing alone in another
                finds.extend(_find_repeated(text, secrets))
            done.append(_replace_spans(text, _merge_overlaps(finds), placeholders))
        return RedactedTexts(tuple(done), tuple(placeholders.hidden.values()))

    def _find(self, text: str) -> Iterator[HiddenSpan]:
        yield from _find_keys(text)
        yield from _find_assigned(text)
        if "@" in text:
            yield from _find_all(_MAIL, text, MAIL)
        yield from _find_ibans(text)
        yield from _find_cards(text)
        yield from _find_phones(text)
        if self._words is not None:
            yield from _find_all(self._words, text, WORD)


class _Placeholders:
    """Gives each thing its placeholder, and never one that stands in the texts already."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._taken = {name for text in texts for name in re.findall(r"\[[A-Za-z ]+ \d+\]", text)}
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


def _merge_overlaps(finds: Iterable[HiddenSpan]) -> list[HiddenSpan]:
    """Return the finds in order, those that overlap as one: of the kind of the longest."""
    merged: list[HiddenSpan] = []
    longest = 0
    for find in sorted(finds, key=lambda find: (find.start, -find.end)):
        size = find.end - find.start
        if merged and find.start < merged[-1].end:
            last = merged[-1]
            kind = find.kind if size > longest else last.kind
            merged[-1] = HiddenSpan(last.start, max(last.end, find.end), kind)
            longest = max(longest, size)
        else:
            merged.append(find)
            longest = size
    return merged


def _replace_spans(text: str, finds: Iterable[HiddenSpan], placeholders: _Placeholders) -> str:
    parts: list[str] = []
    done = 0
    for find in finds:
        parts += (
            text[done : find.start],
            placeholders.placeholder(text[find.start : find.end], find.kind),
        )
        done = find.end
    return "".join([*parts, text[done:]])


def _find_all(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[HiddenSpan]:
    for match in pattern.finditer(text):
        yield HiddenSpan(match.start(), match.end(), kind)


def _compile_words(words: Sequence[str]) -> re.Pattern[str] | None:
    """Return what finds the person's words; those of scripts without spaces anywhere."""
    forms = {unicodedata.normalize(form, word.strip()) for form in ("NFC", "NFD") for word in words}
    if not (wanted := sorted(filter(None, forms), key=len, reverse=True)):
        return None
    return re.compile("|".join(map(_word_pattern, wanted)), re.IGNORECASE)


def _word_pattern(word: str) -> str:
    body = r"\s+".join(map(re.escape, word.split()))
    before = r"(?<!\w)" if word[0] < "\u0e00" else ""
    after = r"(?!\w)" if word[-1] < "\u0e00" else ""
    return before + body + after


def _find_keys(text: str) -> Iterator[HiddenSpan]:
    for known in FORMATS:
        if known.word in text:
            yield from _find_all(known.pattern, text, KEY)
    for match in _BEARER.finditer(text):
        if _is_random(match[1]):
            yield HiddenSpan(match.start(1), match.end(1), KEY)
    if "://" in text:
        for match in _LOGIN.finditer(text):
            if not _NO_SECRET.match(match[1]):
                yield HiddenSpan(match.start(1), match.end(1), PASSWORD)


def _find_assigned(text: str) -> Iterator[HiddenSpan]:
    """Find what stands after `password=`, `token:` and their like."""
    for match in _ASSIGNED.finditer(text):
        sure = _PASSWORD_NAME.match(match["name"]) is not None
        group = "quoted" if match["quote"] else "bare"
        value = match[group]
        if group == "bare":
            value = value.rstrip(_TRAILING) if sure else _TOKEN.findall(value)[0]
        start = match.start(group)
        after = text[start + len(value) : start + len(value) + 1]
        if _NO_SECRET.match(value) or value.lower() == match["name"].lower():
            continue
        if _is_password(match, value, after) if sure else _is_token(value, after):
            yield HiddenSpan(start, start + len(value), PASSWORD if sure else KEY)


def _is_password(match: re.Match[str], value: str, after: str) -> bool:
    """Whether a value is a password, and no expression or sentence that goes on."""
    if match["quote"]:
        return len(value) >= 4 and (match["sign"] != "is" or " " not in value)
    if len(value) < 4 or (_CODE.match(value) and not _DIGIT.match(value)):
        # Bare letters are one at the end of a line, or in an environment or an address.
        ends = after in "\r\n" or (match["sign"] == "=" and after in " \t;&")
        return value.isalpha() and len(value) >= 4 and match["sign"] != "is" and ends
    return match["sign"] not in ("is", ":") or not value.isalpha()


def _is_token(value: str, after: str) -> bool:
    is_number = _NUMBER.fullmatch(value) is not None
    if len(value) < 10 or " " in value or after == "(" or is_number:
        return False
    return _is_random(value)


def _is_random(value: str) -> bool:
    """Whether a value looks random: letters and digits, hardly repeated."""
    if not (any(c.isdigit() for c in value) and any(c.isalpha() for c in value)):
        return False
    value = value[:100]
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= 3


def _find_repeated(text: str, secrets: dict[str, str]) -> Iterator[HiddenSpan]:
    for match in _BARE_VALUE.finditer(text):
        value = match.group().rstrip(_TRAILING)
        if len(value) >= 6 and (kind := secrets.get(value)):
            yield HiddenSpan(match.start(), match.start() + len(value), kind)


def _find_ibans(text: str) -> Iterator[HiddenSpan]:
    for match in _IBAN.finditer(text):
        value = match.group()
        # What follows may look like more of it ("... 00 BIC"): cut word by word until it fits.
        while len(value) >= 15:
            if _is_iban(value):
                yield HiddenSpan(match.start(), match.start() + len(value), IBAN)
                break
            value = value[: max(value.rfind(" "), value.rfind("-"), 0)]


def _is_iban(value: str) -> bool:
    from stdnum import iban

    return iban.is_valid(value, check_country=False)


def _find_cards(text: str) -> Iterator[HiddenSpan]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match.group())
        if any(len(digits) in sizes and start.match(digits) for start, sizes in _CARD_LENGTHS):
            from stdnum import luhn

            if luhn.is_valid(digits):
                yield HiddenSpan(match.start(), match.end(), CARD)


def _find_phones(text: str) -> Iterator[HiddenSpan]:
    """Find numbers with a country code, and others that are written or announced like one."""
    regions = list(REGIONS)
    for match in _PHONE.finditer(text):
        number = match.group()
        if match["sign"]:
            wanted = _is_phone("+" + number.lstrip("(+0"), None)
        else:
            called = _PHONE_WORDS.search(text, max(0, match.start() - 40), match.start())
            wanted = bool(called or _NATIONAL.match(number)) and _is_valid_anywhere(number, regions)
        if wanted:
            yield HiddenSpan(match.start(), match.end(), PHONE)


def _is_valid_anywhere(number: str, regions: list[str]) -> bool:
    for region in regions:
        if _is_phone(number, region):
            regions.remove(region)
            regions.insert(0, region)  # the next one in a list is probably from there, too
            return True
    return False


def _is_phone(number: str, region: str | None) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, region))
    except phonenumbers.NumberParseException:
        return False
