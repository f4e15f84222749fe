"""The parts: what is loaded of each, and a small piece of work that shows that it works.

Modules are named as text and not imported here: a part that was left out of a build shall be missed
when it is tried, not collected because it is tried.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from baton.doctor.child import self_test_tasks


@dataclass(frozen=True, slots=True)
class Part:
    """One part: modules that must load (compiled ones by their own names), and how it is used.

    `packages` are the distributions with compiled code that are proved by it. `use` returns what
    to tell of the part, and raises whatever happens.
    """

    use: Callable[[], str]
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


_POSIX = (
    () if sys.platform == "win32" else ("_posixsubprocess", "fcntl", "grp", "resource", "termios")
)
_PYTHON = (
    *("_asyncio", "_bisect", "_blake2", "_bz2", "_codecs_jp", "_contextvars", "_csv", "_ctypes"),
    *("_datetime", "_decimal", "_elementtree", "_hashlib", "_heapq", "_json", "_lzma"),
    *("_multibytecodec", "_opcode", "_pickle", "_queue", "_random", "_socket", "_ssl", "_struct"),
    *("_typing", "_uuid", "_zoneinfo", "array", "binascii", "math", "mmap", "pyexpat", "select"),
    *("unicodedata", "zlib", *_POSIX),
)
"""What Baton's processes import of Python's own compiled modules."""

_KEYRING = {"linux": ("secretstorage", "jeepney"), "win32": ("win32ctypes.pywin32.win32cred",)}

PARTS: dict[str, Part] = {
    "python": Part(self_test_tasks.use_python, _PYTHON),
    "libraries": Part(self_test_tasks.open_libraries),
    "sqlite": Part(self_test_tasks.use_sqlite, packages=("pysqlite3",)),
    "settings": Part(
        self_test_tasks.use_settings, ("msgspec._core", "tomlkit", "filelock"), ("msgspec",)
    ),
    "machine": Part(self_test_tasks.use_machine, ("psutil",), ("psutil",)),
    "numpy": Part(
        self_test_tasks.use_numpy,
        ("numpy._core._multiarray_umath", "numpy.linalg._umath_linalg", "numpy.random"),
        ("numpy",),
    ),
    "onnxruntime": Part(self_test_tasks.use_onnxruntime, ("onnxruntime",), ("onnxruntime",)),
    "tokenizers": Part(self_test_tasks.use_tokenizers, ("tokenizers",), ("tokenizers",)),
    "cryptography": Part(
        self_test_tasks.use_cryptography,
        ("_cffi_backend", "cryptography.hazmat.bindings._rust"),
        ("cryptography", "cffi"),
    ),
    "litellm": Part(
        self_test_tasks.use_litellm,
        (
            *("pydantic_core._pydantic_core", "jiter", "fastuuid", "tiktoken._tiktoken"),
            *("aiohttp._http_parser", "aiohttp._http_writer", "multidict._multidict"),
            *("yarl._quoting_c", "frozenlist._frozenlist", "propcache._helpers_c", "openai"),
        ),
        (
            *("aiohttp", "fastuuid", "frozenlist", "jiter", "multidict", "propcache"),
            *("pydantic-core", "tiktoken", "yarl"),
        ),
    ),
    "certificates": Part(self_test_tasks.use_certificates, ("h11", "httpcore", "httpx", "certifi")),
    "hubs": Part(
        self_test_tasks.use_hubs,
        ("yaml._yaml", "charset_normalizer.md", "huggingface_hub"),
        ("pyyaml", "charset-normalizer"),
    ),
    "keyrings": Part(self_test_tasks.use_keyrings, ("keyring", *_KEYRING.get(sys.platform, ()))),
    "keyring": Part(self_test_tasks.use_keyring),
    "jinja": Part(self_test_tasks.use_jinja, ("markupsafe._speedups",), ("markupsafe",)),
    "jsonschema": Part(self_test_tasks.use_jsonschema, ("rpds",), ("rpds-py",)),
    "units": Part(self_test_tasks.use_units, ("pint",)),
    "words": Part(self_test_tasks.use_words, ("simpleeval", "text_to_num"), ("text2num",)),
    "zones": Part(self_test_tasks.use_zones, ("dateutil.relativedelta",)),
}
