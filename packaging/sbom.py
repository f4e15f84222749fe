"""Writes the bill of materials of a folder build, as CycloneDX: `sbom.py FOLDER FILE`.

The same build gives the same bytes: no time but the one it is given, no random number.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import parts
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

COMMIT = "baton:commit"
"""The property that says what was built."""

_KINDS = {"library": ComponentType.LIBRARY, "model": ComponentType.MACHINE_LEARNING_MODEL}


def bill(found: Iterable[parts.Part], build: Mapping[str, str], epoch: int = 0) -> str:
    """Return the bill as JSON. `build` is what the folder's build.json says of it."""
    licences = LicenseFactory()
    name = "baton" if build["flavour"] == "full" else "baton-slim"
    gpu = f"-{build['gpu']}" if build["gpu"] else ""
    root = Component(
        name=name,
        version=build["version"],
        type=ComponentType.APPLICATION,
        bom_ref=f"{name}-{build['version']}-{build['platform']}{gpu}",
        licenses=[licences.make_from_string("Apache-2.0")],
        properties=[Property(name=COMMIT, value=build["commit"])],
    )
    components = [_component(part, licences) for part in found]
    bom = Bom(components=components, serial_number=_serial(root, components))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = root
    bom.register_dependency(root, components)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise parts.PartsError(f"The bill of materials breaks CycloneDX's schema: {error}")
    return text


def _component(part: parts.Part, licences: LicenseFactory) -> Component:
    sources = [ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(part.source))]
    return Component(
        name=part.name,
        version=part.version or None,
        type=_KINDS[part.kind],
        bom_ref=f"{part.purl}#{part.name}",  # of one library there may be two
        purl=PackageURL.from_string(part.purl),
        licenses=[licences.make_from_string(part.licence)],
        external_references=sources if part.source else [],
        hashes=[
            HashType(alg=HashAlgorithm.SHA_256, content=sha256) for _, sha256 in part.files[:1]
        ],
    )


def _serial(root: Component, components: Iterable[Component]) -> uuid.UUID:
    """Return a number that stands for these contents, and so is the same for the same build."""
    commit = [str(one.value) for one in root.properties]
    named = [str(root.bom_ref), *commit, *sorted(str(one.bom_ref) for one in components)]
    return uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(named))


def main(folder: Path, file: Path, epoch: int = 0) -> None:
    """Write the bill of a folder build."""
    executable = next(path for path in (folder / "baton", folder / "baton.exe") if path.is_file())
    found = parts.parts(folder, parts.modules_of(executable), distributions())
    description = (folder / parts.CONTENTS / "baton" / "build.json").read_text(encoding="utf-8")
    file.write_text(bill(found, json.loads(description), epoch), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except parts.PartsError as error:
        sys.exit(str(error))
