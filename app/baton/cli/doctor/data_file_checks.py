"""Whether the files that come with Baton are there, and are read rightly."""

from __future__ import annotations

import asyncio
import hashlib

from baton.cli.doctor.check_result import Finding, State
from baton.cli.doctor.temporary_home import Ground, mend

TEMPLATES = 4
LEAST_PRICES = 100
LEAST_MODELS = 10
"""Fewer than these, and something of what Baton brings along isn't here."""

_ROUTER = (
    "encoder.onnx", "tokenizer.json", "heads.npz", "heads.json", "kinds.npz", "lengths.npz",
)  # fmt: skip

_PRIVATE = "Call +49 30 901820 or pay DE89 3704 0044 0532 0130 00, card 4111 1111 1111 1111."
_KINDS = {"phone number", "IBAN", "card number"}

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


async def templates(_: Ground) -> str | Finding:
    """Read every workflow that Baton brings along."""
    from baton.workers.template_files import read_templates

    found = read_templates()
    read = [workflow.name for workflow in found.values()]
    return _enough("templates", len(read), TEMPLATES, ", ".join(read))


async def prices(_: Ground) -> str | Finding:
    """Read the price list."""
    from baton.workers.cloud.price_table import snapshot

    listed = snapshot()
    text = f"{len(listed.models)} models of {listed.date}"
    return _enough("prices", len(listed.models), LEAST_PRICES, text)


async def catalogue(_: Ground) -> str | Finding:
    """Read the catalogue of models."""
    from baton.models.catalogue import read_catalogue

    found = read_catalogue()
    return _enough("catalogue", len(found), LEAST_MODELS, f"{len(found)} models")


def _enough(name: str, count: int, least: int, text: str) -> str | Finding:
    if count >= least:
        return text
    why = f"Of at least {least} there {'is' if count == 1 else 'are'} {count}."
    return Finding(name, State.BROKEN, f"{why} {mend()}")


async def router_files(_: Ground) -> str | Finding:
    """Look for everything that the router and the skill table read, and tell which they are."""
    from baton.routing import lacking, shipped
    from baton.routing.measured_skills import read_scores

    folder = shipped()
    told = []
    for name in _ROUTER:
        file = folder / name
        if not file.is_file():
            return Finding("router files", State.BROKEN, f"{name} isn't there. {mend()}")
        digest = await asyncio.to_thread(lambda path: hashlib.sha256(path.read_bytes()), file)
        told.append(f"{name} {digest.hexdigest()[:8]}")
    why, hint = lacking(folder)
    if why or not read_scores(folder):
        why = why or "The table of what models are good at (skills.json) isn't there, or is broken."
        return Finding("router files", State.BROKEN, f"{why} {hint or mend()}")
    return ", ".join(told)


async def hiding(_: Ground) -> str | Finding:
    """Hide what mustn't leave this machine, with the libraries that know numbers."""
    from baton.workers.cloud.redaction import Redaction

    found = (await asyncio.to_thread(Redaction().redact, [_PRIVATE])).hidden
    if missed := _KINDS - {thing.kind for thing in found}:
        return Finding("hiding", State.BROKEN, f"It misses a {sorted(missed)[0]}. {mend()}")
    return "phone numbers, IBANs and card numbers are found"


async def documents(place: Ground) -> str | Finding:
    """Read a PDF."""
    from baton.workers.attachments import read_attachment

    file = place.folder / "paper.pdf"
    file.write_bytes(_PDF)
    text = read_attachment(file).text
    if text != "Lift the baton":
        return Finding("documents", State.BROKEN, f"A PDF is read wrongly. {mend()}")
    return "a PDF is read"
