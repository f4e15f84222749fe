"""Whether the files that come with Baton are there, and are read rightly."""

from __future__ import annotations

import asyncio
import hashlib

from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.temporary_home import SelfTestHome, repair_hint

MIN_TEMPLATES = 4
MIN_PRICES = 100
MIN_MODELS = 10
"""Fewer than these, and something of what Baton brings along isn't here."""

_ROUTER_FILES = (
    "encoder.onnx", "tokenizer.json", "heads.npz", "heads.json", "kinds.npz", "lengths.npz",
)  # fmt: skip

_PRIVATE_TEXT = "Call +49 30 901820 or pay DE89 3704 0044 0532 0130 00, card 4111 1111 1111 1111."
_PRIVATE_KINDS = {"phone number", "IBAN", "card number"}

_PDF = (
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n"
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n3 0 obj\n"
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
    b"/Resources<</Font<</F 5 0 R>>>>>>\n"
    b"endobj\n4 0 obj\n<</Length 44>>\nstream\n"
    b"BT /F 12 Tf 20 100 Td (Lift the baton) Tj ET\nendstream\nendobj\n5 0 obj\n"
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\nxref\n0 6\n"
    b"0000000000 65535 f \n0000000009 00000 n \n0000000054 00000 n \n0000000105 00000 n \n"
    b"0000000216 00000 n \n0000000308 00000 n \ntrailer\n<</Root 1 0 R/Size 6>>\n"
    b"startxref\n371\n%%EOF\n"
)


async def check_templates(_: SelfTestHome) -> str | CheckResult:
    """Read every workflow that Baton brings along."""
    from baton.workers.template_files import read_templates

    found = read_templates()
    read = [workflow.name for workflow in found.values()]
    return _compare_count("templates", len(read), MIN_TEMPLATES, ", ".join(read))


async def check_prices(_: SelfTestHome) -> str | CheckResult:
    """Read the price list."""
    from baton.workers.cloud.price_table import snapshot

    listed = snapshot()
    text = f"{len(listed.models)} models of {listed.date}"
    return _compare_count("prices", len(listed.models), MIN_PRICES, text)


async def check_catalogue(_: SelfTestHome) -> str | CheckResult:
    """Read the catalogue of models."""
    from baton.models.catalogue import read_catalogue

    found = read_catalogue()
    return _compare_count("catalogue", len(found), MIN_MODELS, f"{len(found)} models")


def _compare_count(name: str, count: int, least: int, text: str) -> str | CheckResult:
    if count >= least:
        return text
    why = f"Of at least {least} there {'is' if count == 1 else 'are'} {count}."
    return CheckResult(name, CheckState.BROKEN, f"{why} {repair_hint()}")


async def check_router_files(_: SelfTestHome) -> str | CheckResult:
    """Look for everything that the router and the skill table read, and tell which they are."""
    from baton.routing import lacking, shipped
    from baton.routing.measured_skills import read_scores

    folder = shipped()
    told = []
    for name in _ROUTER_FILES:
        file = folder / name
        if not file.is_file():
            return CheckResult(
                "router files", CheckState.BROKEN, f"{name} isn't there. {repair_hint()}"
            )
        digest = await asyncio.to_thread(lambda path: hashlib.sha256(path.read_bytes()), file)
        told.append(f"{name} {digest.hexdigest()[:8]}")
    why, hint = lacking(folder)
    if why or not read_scores(folder):
        why = why or "The table of what models are good at (skills.json) isn't there, or is broken."
        return CheckResult("router files", CheckState.BROKEN, f"{why} {hint or repair_hint()}")
    return ", ".join(told)


async def check_hiding(_: SelfTestHome) -> str | CheckResult:
    """Hide what mustn't leave this machine, with the libraries that know numbers."""
    from baton.workers.cloud.redaction import Redaction

    found = (await asyncio.to_thread(Redaction().redact, [_PRIVATE_TEXT])).hidden
    if missed := _PRIVATE_KINDS - {thing.kind for thing in found}:
        return CheckResult(
            "hiding", CheckState.BROKEN, f"It misses a {sorted(missed)[0]}. {repair_hint()}"
        )
    return "phone numbers, IBANs and card numbers are found"


async def check_documents(place: SelfTestHome) -> str | CheckResult:
    """Read a PDF."""
    from baton.workers.attachments import read_attachment

    file = place.folder / "paper.pdf"
    file.write_bytes(_PDF)
    text = read_attachment(file).text
    if text != "Lift the baton":
        return CheckResult(
            "documents", CheckState.BROKEN, f"A PDF is read wrongly. {repair_hint()}"
        )
    return "a PDF is read"
