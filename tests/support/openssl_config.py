"""A configuration of OpenSSL's that has it load a library, which reports that it was loaded."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LIBRARY = """
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen("%s", "a");
    if (file) { fputs("%s\\n", file); fclose(file); }
}
"""

CONFIGURATION = """
openssl_conf = all
[all]
providers = providers
engines = engines
[providers]
planted = provider
[provider]
module = {library}
activate = 1
[engines]
planted = engine
[engine]
dynamic_path = {library}
init = 1
"""


def library(file: Path, canary: Path, message: str = "a library") -> None:
    """Compile a library that adds a line to `canary` when it is loaded."""
    compiler = shutil.which("cc")
    assert compiler, "needs a compiler, for libraries that report that they were loaded"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", str(file), "-"]
    subprocess.run(command, input=(LIBRARY % (canary, message)).encode(), check=True)


@dataclass(frozen=True)
class PlantedLibrary:
    """The library, in a folder with a configuration that names it."""

    folder: Path
    canary: Path

    @classmethod
    def of(cls, folder: Path) -> PlantedLibrary:
        """Plant it there."""
        canary = folder.with_name(f"{folder.name} canary")
        folder.mkdir(exist_ok=True)
        for name in ("planted.so", "legacy.so", "pkcs11.so"):
            library(folder / name, canary)
        text = CONFIGURATION.format(library=folder / "planted.so")
        (folder / "openssl.cnf").write_text(text)
        return cls(folder, canary)

    @property
    def environ(self) -> dict[str, str]:
        """Return what has OpenSSL find it."""
        folder = str(self.folder)
        return {
            "OPENSSL_CONF": f"{folder}/openssl.cnf",
            "OPENSSL_CONF_INCLUDE": folder,
            "OPENSSL_ENGINES": folder,
            "OPENSSL_MODULES": folder,
        }
