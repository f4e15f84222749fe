"""What a hub says of the catalogue's models: compared with it, or taken into it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from baton.models.catalogue import CatalogueModel

SECONDS = 15
"""How long a hub may take to say what it has."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub has it."""

    revision: str
    size: int
    sha256: str
    licence: str


class HubUnreachable(Exception):
    """No hub answered; the text is a sentence."""


def compare(found: Sequence[CatalogueModel]) -> list[str]:
    """Return a line for each thing that the hub says otherwise."""
    try:
        return [f"{model.id}: {what}" for model in found for what in differences(model)]
    except HubUnreachable as error:
        return [str(error)]


def pin(file: Path, found: Sequence[CatalogueModel]) -> list[str]:
    """Write what entries lack into the file; return what couldn't be found out."""
    text = file.read_text("utf-8")
    wrong: list[str] = []
    try:
        for model in found:
            if (model.revision and model.size and model.sha256) or not model.repo:
                continue
            here = list(differences(model))
            wrong += [f"{model.id}: {what}" for what in here]
            if not here:
                text = completed_text(text, model, look(model))
    except HubUnreachable as error:
        wrong.append(str(error))
    if text != file.read_text("utf-8"):
        file.write_text(text, "utf-8")
    return wrong


def differences(model: CatalogueModel) -> Iterator[str]:
    """Yield what the hub says otherwise of one model."""
    if not model.repo:
        return
    try:
        there = look(model)
    except LookupError as error:
        yield str(error)
        return
    for name in ("revision", "size", "sha256"):
        known, said = getattr(model, name), getattr(there, name)
        if known and known != said:
            yield f"the hub's {name} is {said or 'not given'}, not {known}"
    if there.licence and there.licence != model.licence:
        yield f"the hub's licence is {there.licence}, not {model.licence}"


def look(model: CatalogueModel) -> HubFile:
    """Ask the hub for a model's file. Raises LookupError and HubUnreachable."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import httpx
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    where = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    try:
        info = HfApi(where).model_info(
            str(model.repo),
            revision=model.revision or None,
            files_metadata=True,
            timeout=SECONDS,
        )
    except (httpx.TransportError, OfflineModeIsEnabled) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise HubUnreachable(
            f"No hub answers at {where}, so nothing was compared: {reason}"
        ) from error
    except HfHubHTTPError as error:
        raise LookupError(f"the hub says: {str(error).strip().splitlines()[0]}") from error
    file = next((one for one in info.siblings or () if one.rfilename == model.file), None)
    if file is None:
        raise LookupError(f"the hub's {model.repo} has no {model.file}")
    licence = str((info.card_data.get("license") if info.card_data else "") or "").lower()
    sha256 = file.lfs.sha256 if file.lfs else ""
    return HubFile(
        str(info.sha or ""), file.size or 0, sha256, "" if licence == "other" else licence
    )


def completed_text(text: str, model: CatalogueModel, there: HubFile) -> str:
    """Return the catalogue's text with what one entry lacked, below its file."""
    parts = re.split(r"(?m)^(?=\[\[model\]\])", text)
    mine = f'id = "{model.id}"\n'
    lines = {
        "revision": f'revision = "{there.revision}"\n',
        "size": f"size = {there.size:_}\n",
        "sha256": f'sha256 = "{there.sha256}"\n',
    }
    for place, part in enumerate(parts):
        if mine in part:
            for name in lines:  # those that are there move along, so that the order stays
                part = re.sub(rf"(?m)^{name} = .*\n", "", part)
            known = "".join(lines[name] for name in lines if getattr(there, name))
            parts[place] = re.sub(r"(?m)^(file = .*\n)", rf"\g<1>{known}", part, count=1)
    return "".join(parts)
