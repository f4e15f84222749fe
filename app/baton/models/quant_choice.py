"""Which file of a repository is fetched: of the quantisation that is named, or of a usual one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from baton.core.catalogue_types import ModelOffer
from baton.core.errors import ConfigError
from baton.gguf.split_files import name_without_part, part_names

PREFERRED_QUANTS = ("Q4_K_M", "Q4_K_S", "Q4_0", "MXFP4", "Q5_K_M", "Q4_1", "IQ4_XS", "Q8_0")
"""Which file of a repository is taken where the user names none: small, with little loss."""

_NO_MODEL = re.compile(r"mmproj|imatrix|-vocab", re.IGNORECASE)
_HELPER = re.compile(r"(?<![a-z])(?:draft|mtp|eagle\d?|lora|adapter)(?![a-z])", re.IGNORECASE)
"""Names of files that only go with a model, unless nothing else is there."""

_QUANT = re.compile(
    r"(?<![a-z0-9])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|BF16|F(?:P)?16|F(?:P)?32|MXFP4\w*|NVFP4\w*))(?![a-z0-9_])",
    re.IGNORECASE,
)


def choose_file(offers: Sequence[ModelOffer], quant: str, repo: str) -> ModelOffer:
    """Return the file of a repository that the user means: by its name, or its quantisation.

    Nothing is guessed: "XS" isn't IQ4_XS, and Q4_K_XL isn't UD-Q4_K_XL. Raises ConfigError.
    """
    models = [o for o in offers if not _NO_MODEL.search(o.source.file)]
    if not models:
        raise _no_model_error(offers, repo)
    files = [o for o in models if not _HELPER.search(o.source.file)] or models
    if quant:
        return _named_file(models, files, quant, repo)
    whole = [o for o in files if all(part.size for part in o.parts)] or files
    for wanted in [*PREFERRED_QUANTS, ""]:
        marks = [o for o in whole if not wanted or _quant(o).removeprefix("UD-") == wanted]
        if marks:
            return min(marks, key=lambda offer: (offer.size, offer.source.file))
    raise AssertionError("the last one is any file")


def _named_file(
    models: Sequence[ModelOffer], files: Sequence[ModelOffer], typed: str, repo: str
) -> ModelOffer:
    """Return the one file of that name or quantisation. Raises ConfigError that asks which."""
    for offer in models:
        path = offer.source.file
        names = {name for one in (path, path.rpartition("/")[2]) for name in part_names(one)}
        if typed.lower() in {name.lower() for name in names}:
            return offer
    found = [offer for offer in files if _quant(offer) == typed.upper()]
    if len(found) == 1:
        return found[0]
    known = {quant: offer for offer in files if (quant := _quant(offer))}
    listed = ", ".join(sorted(offer.source.file for offer in found or files)[:12])
    if found:
        raise ConfigError(
            f"{repo} has {len(found)} files of {typed!r}: {listed}.",
            f"Name one: `baton models pull hf.co/{repo}/{found[0].source.file}`.",
        )
    wanted = typed.upper()
    near = [quant for quant in sorted(known) if wanted in quant or quant in wanted]
    near = near or difflib.get_close_matches(wanted, known, n=1)
    meant = f"Did you mean {' or '.join(f'{repo}:{quant}' for quant in near[:4])}? " if near else ""
    raise ConfigError(f"{repo} has no file {typed!r}.", f"{meant}There are: {listed}.")


def _no_model_error(offers: Sequence[ModelOffer], repo: str) -> ConfigError:
    hint = "Look for the same model in a repository that has it as GGUF."
    if not offers:
        return ConfigError(f"{repo} has no GGUF files.", hint)
    listed = ", ".join(sorted(offer.source.file for offer in offers)[:6])
    return ConfigError(
        f"{repo} has no GGUF file that answers by itself, only what goes with a model: {listed}.",
        hint,
    )


def _quant(offer: ModelOffer) -> str:
    """Return the quantisation that a file's name says, else its folder's, "" if neither does."""
    folder, _, name = name_without_part(offer.source.file).rpartition("/")
    for text in (name, folder.rpartition("/")[2]):
        if found := _QUANT.findall(text):
            quant: str = found[-1]
            return quant.upper()
    return ""
