"""What Windows shows of the program in its properties, as PyInstaller wants it.

Scanners trust a program that says who it is sooner than one that doesn't.
"""

from __future__ import annotations

import re

_TEMPLATE = """\
VSVersionInfo(
  ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}, mask=0x3F, flags=0x0, OS=0x40004,
    fileType=0x1, subtype=0x0, date=(0, 0)),
  kids=[
    StringFileInfo([StringTable("040904B0", [
      StringStruct("CompanyName", "The Baton authors"),
      StringStruct("FileDescription", "Baton, a conductor for language models"),
      StringStruct("FileVersion", "{version}"),
      StringStruct("InternalName", "baton"),
      StringStruct("LegalCopyright", "Apache License 2.0"),
      StringStruct("OriginalFilename", "baton.exe"),
      StringStruct("ProductName", "Baton"),
      StringStruct("ProductVersion", "{version}")])]),
    VarFileInfo([VarStruct("Translation", [0x409, 1200])])
  ]
)
"""


def version_info(version: str) -> str:
    """Return the resource for a version such as 1.2.3 or 1.2.3rc1."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:4]]
    return _TEMPLATE.format(version=version, numbers=tuple(numbers + [0] * (4 - len(numbers))))
