"""The parts of Baton: what is loaded of each, and a small piece of work with a known result.

Modules are named as text and not imported here: a part that was left out of a build has to be
missed when it is used, not collected because it is used. Each `use_` function returns a sentence
about its part, and raises PartBroken or what a library raises.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from baton.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Part:
    """One part: modules that must load (compiled ones by their own names), and how it is used.

    `packages` are the distributions with compiled code that are proved by it. `use` returns a
    sentence about the part, and may raise anything.
    """

    use: Callable[[], str]
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


MIN_ROOTS = 100
"""The well-known authorities are some 140."""

MIN_MODELS = 1000
"""litellm knows thousands."""

MIN_ZONES = 400

_SUFFIXES = (".so", ".dylib", ".pyd", ".dll")
_GPU_LIBRARIES = ("ggml-cuda", "ggml-vulkan", "ggml-hip", "ggml-sycl")
"""Libraries that need a graphics driver, which need not be there."""

_SYSTEM_LIBRARIES = re.compile(
    r"(ld|ld-linux[\w-]*|ld-musl[\w-]*|lib(c|m|dl|pthread|rt|util|resolv|anl|mvec|nss_\w+))[-.]"
    r"|.*\.(cpython-|abi3\.)"
)
"""Names of the C library's parts; and of Python's modules, which are only looked for here."""

_CPU_VARIANT = "ggml-cpu-"
"""Compiled for other processors, too: the one for this is tried with llama.cpp."""


class PartBroken(Exception):
    """A part loads, but what it does is wrong; the text is a sentence."""


class DoubtfulText(str):
    """The sentence about a part that works, but not as well as it could."""


def expect(right: object, what: str) -> None:
    """Raise PartBroken unless something is so."""
    if not right:
        raise PartBroken(what)


def use_python() -> str:
    """Use what Python itself has of compiled code, beyond what runs this."""
    import bz2
    import hashlib
    import lzma
    import ssl
    import zlib

    text = b"baton" * 100
    for packer in (bz2, lzma, zlib):
        expect(packer.decompress(packer.compress(text)) == text, f"{packer.__name__} is wrong.")
    found = hashlib.sha256(b"").hexdigest()
    expect(found.startswith("e3b0c44298fc1c14"), "SHA-256 is computed wrongly.")
    expect("é".encode("cp437") == b"\x82", "A text's encoding is wrong.")
    where = "packaged" if getattr(sys, "frozen", False) else "not packaged"
    return f"{platform.python_version()} ({where}), {ssl.OPENSSL_VERSION}"


def open_libraries() -> str:
    """Open every compiled library inside the packaged binary, as the system does for a program.

    What they need must be inside too, but for the C library: the system's would do here, and be
    missing on another machine.
    """
    inside = getattr(sys, "_MEIPASS", None)
    if inside is None:
        return "not a packaged binary: they are where pip put them"
    folder = Path(inside).resolve()
    files = list(_library_files(folder))
    with_driver = [file for file in files if any(gpu in file.name for gpu in _GPU_LIBRARIES)]
    lacking = _unopenable(file for file in files if file not in with_driver)
    count = len(files) - len(with_driver)
    expect(count, "There are none, so this isn't all of Baton.")
    expect(not lacking, f"{len(lacking)} can't be opened. {' '.join(lacking[:3])}")
    outside = _system_libraries(folder)
    expect(not outside, f"The system's are used, not Baton's own: {', '.join(outside[:3])}.")
    gpu = _unopenable(with_driver)
    drivers = f"; not opened, for want of a graphics driver: {'; '.join(gpu)}" if gpu else ""
    return f"all {count} can be opened{drivers}"


def _library_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            if (name.endswith(_SUFFIXES) or ".so." in name) and _CPU_VARIANT not in name:
                yield Path(place, name)


def _unopenable(files: Iterable[Path]) -> list[str]:
    """Return those that can't be opened, with why."""
    import ctypes

    failures = []
    for file in files:
        try:
            ctypes.CDLL(str(file))
        except OSError as error:
            failures.append(f"{file.name}: {error.__cause__ or error}")  # not PyInstaller's words
    return failures


def _system_libraries(folder: Path) -> list[str]:
    """Return the loaded libraries from outside `folder`, where /proc lists them."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return []
    try:
        forced = Path("/etc/ld.so.preload").read_text("utf-8", "replace").split()
    except OSError:
        forced = []
    paths = {Path(path) for path in re.findall(r"/.*\.so[.\d]*$", maps, re.MULTILINE)}
    return sorted(
        path.name
        for path in paths
        if not (
            path.is_relative_to(folder) or _SYSTEM_LIBRARIES.match(path.name) or str(path) in forced
        )
    )


def use_sqlite() -> str:
    """Search some text, with an SQLite in which two writers can't damage a database."""
    from baton.platform.sqlite import connect, sqlite_version, version_warning

    if weak := version_warning():
        raise PartBroken(weak)
    connection = connect(None)
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    connection.execute("INSERT INTO words VALUES ('the baton of a conductor')")
    found = connection.execute("SELECT count(*) FROM words WHERE words MATCH 'conduct*'")
    expect(found.fetchone()[0] == 1, "The search for words (FTS5) doesn't find what is there.")
    connection.close()
    return f"SQLite {sqlite_version()} with FTS5"


def use_settings() -> str:
    """Read settings as Baton does: TOML into a typed tree."""
    import msgspec
    import tomlkit

    tree = tomlkit.parse('[budget]\nday = "2"  # dollars\n')
    budget: Any = tree["budget"]
    budget["day"] = "3"
    text = tomlkit.dumps(tree)
    expect('day = "3"  # dollars' in text, "A changed settings file loses its comments.")
    read = msgspec.toml.decode(text, type=dict[str, dict[str, str]])
    expect(read == {"budget": {"day": "3"}}, "Settings are read wrongly.")
    return f"msgspec {_package_version('msgspec')}, tomlkit {_package_version('tomlkit')}"


def use_machine() -> str:
    """Look memory and processors up."""
    import psutil

    expect(psutil.virtual_memory().total > 0, "The size of the memory can't be read.")
    expect(psutil.Process().memory_info().rss > 0, "A process can't be looked at.")
    return f"psutil {psutil.__version__}"


def use_numpy() -> str:
    """Multiply, solve, and draw numbers."""
    import numpy as np

    matrix = np.array([[2.0, 1.0], [1.0, 3.0]], dtype=np.float64)
    solved = np.linalg.solve(matrix, np.array([3.0, 5.0]))
    expect(np.allclose(solved, [0.8, 1.4]), "An equation is solved wrongly.")
    large = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    expect(int((large @ np.eye(100, dtype=np.float32)).sum()) == 49_995_000, "A product is wrong.")
    expect(0 <= np.random.default_rng(1).random() < 1, "Random numbers are out of bounds.")
    return f"numpy {np.__version__}"


def use_onnxruntime() -> str:
    """Say on what it can compute."""
    import onnxruntime as ort

    # "Azure" is in every build, and would send questions to a server: Baton never asks for it.
    names = [name.removesuffix("ExecutionProvider") for name in ort.get_available_providers()]
    expect("CPU" in names, "It can't compute on the processor.")
    providers = ", ".join(name for name in names if name != "Azure")
    return f"onnxruntime {ort.__version__}, runs on {providers}"


_WORDS = """{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
"post_processor": null, "decoder": null,
"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "baton": 1}, "unk_token": "[UNK]"}}"""


def use_tokenizers() -> str:
    """Cut a text into tokens."""
    import tokenizers as library

    ids = library.Tokenizer.from_str(_WORDS).encode("Baton conducts").ids
    expect(ids == [1, 0], "A text is cut wrongly.")
    return f"tokenizers {library.__version__}"


_SIGNER = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
_SIGNED = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)
"""The first signature of RFC 8032: of nothing."""


def use_cryptography() -> str:
    """Check a signature as of an update, a right one and a wrong one."""
    import cryptography as library
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(_SIGNER))
    key.verify(bytes.fromhex(_SIGNED), b"")
    try:
        key.verify(bytes.fromhex(_SIGNED), b"x")
    except InvalidSignature:
        return f"cryptography {library.__version__}: a signature is checked rightly"
    raise PartBroken("It takes a wrong signature for a right one.")


def use_litellm() -> str:
    """Load it as the gateway does, with what it knows of models."""
    import fastuuid
    import jiter
    import pydantic_core

    from baton.workers.cloud.child.litellm_requests import LitellmRequests

    number = pydantic_core.SchemaValidator(pydantic_core.core_schema.int_schema())
    expect(number.validate_python("42") == 42, "pydantic reads a number wrongly.")
    expect(jiter.from_json(b'{"a": [1]}') == {"a": [1]}, "jiter reads JSON wrongly.")
    expect(len(str(fastuuid.uuid4())) == 36, "fastuuid makes no names.")

    asyncio.run(LitellmRequests().ready())
    import litellm

    models = len(litellm.model_cost)
    expect(models >= MIN_MODELS, f"Its list of models has only {models}, so it wasn't packed.")
    return f"litellm {_package_version('litellm')} with {models} models"


def use_certificates() -> str:
    """Count the authorities that are trusted without any of the system's own."""
    from baton.ipc.child_http import trusted_certificates

    roots = trusted_certificates({}).cert_store_stats()["x509_ca"]
    expect(roots >= MIN_ROOTS, f"Only {roots} authorities are known, so no provider is trusted.")
    return f"{roots} authorities of its own"


def use_hubs() -> str:
    """Make the client with which hubs are asked; nothing is asked."""
    import charset_normalizer
    import huggingface_hub

    yaml: Any = importlib.import_module("yaml")

    expect(yaml.load("a: [1]", yaml.CSafeLoader) == {"a": [1]}, "YAML is read wrongly.")
    name = charset_normalizer.from_bytes("naïve questions, née Weiß".encode()).best()
    expect(name is not None, "A text's encoding isn't recognised.")
    expect(huggingface_hub.HfApi(token=False).endpoint, "The hub's client has no address.")
    return f"huggingface_hub {_package_version('huggingface_hub')}"


def use_keyrings() -> str:
    """Load what asks the system's own keyring."""
    from baton.platform.secrets import KEYRING

    module, _, backend = KEYRING.rpartition(".")
    there = hasattr(importlib.import_module(module), backend)
    expect(there, f"{KEYRING} isn't there, so no keyring is found.")
    return f"keyring {_package_version('keyring')} with {module.rpartition('.')[2]}"


def use_keyring() -> str:
    """Keep a test key in the keyring, else in a private file; read it back, and remove it."""
    from baton.platform import secrets

    name, value = f"self-test-{token_hex(8)}", token_hex(16)
    file = None
    backend, why = secrets.keyring_status()
    try:
        secrets.save_key(name, value)
    except secrets.NoKeyring as error:
        why = why or error.why
        file = Path(os.environ["BATON_HOME"]) / "config" / "keys.toml"
        secrets.save_key(name, value, file=file)
    try:
        found = secrets.find_keys([name], file=file, environ={}).get(name)
        expect(found is not None and found.value == value, "A key that was kept isn't there.")
    finally:
        with suppress(ConfigError):  # of a keyring that can't be asked: nothing is in it
            secrets.remove_key(name, file=file)
    expect(name not in secrets.find_keys([name], file=file, environ={}), "A key can't be removed.")
    if file is None:
        return f"a key was kept in {backend}, read back, and removed"
    return DoubtfulText(
        f"{why}, so keys come from the environment, or from a private file: that was tried, and"
        " works"
    )


def use_jinja() -> str:
    """Write a chat's text as a model's template wants it."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    template = ImmutableSandboxedEnvironment().from_string("{% for m in m %}<{{ m }}>{% endfor %}")
    expect(template.render(m=["a", "b"]) == "<a><b>", "A chat template is filled in wrongly.")
    return f"jinja2 {_package_version('jinja2')}"


def use_jsonschema() -> str:
    """Check values against a schema."""
    library: Any = importlib.import_module("jsonschema")
    form = library.Draft202012Validator({"type": "array", "items": {"type": "integer"}})
    expect(form.is_valid([1, 2]), "A right value is refused.")
    expect(not form.is_valid([1, "2"]), "A wrong value is taken.")
    return f"jsonschema {_package_version('jsonschema')}"


def use_units() -> str:
    """Convert a unit, by pint's own definitions."""
    from fractions import Fraction

    from baton.workers.tools.computation.quantities import Amount, evaluate_quantities

    found = evaluate_quantities("3 in -> cm", {}).value
    right = isinstance(found, Amount) and found.parts == ((Fraction("7.62"), "cm"),)
    expect(right, "3 inches aren't 7.62 cm.")
    return f"pint {_package_version('pint')}: 3 inches are 7.62 cm"


def use_words() -> str:
    """Read a number word, and compute with it."""
    from baton.workers.tools.computation import evaluate
    from baton.workers.tools.computation.marked_text import mark

    marked = mark("zweiundvierzig mal drei").text
    expect(marked == "42 mal 3", "Number words are read wrongly.")
    expect(evaluate("calc", "42 * 3").value == 126, "An expression is computed wrongly.")
    return "zweiundvierzig is 42"


def use_zones() -> str:
    """Look time zones up, the system's or Baton's own."""
    from datetime import datetime
    from zoneinfo import ZoneInfo, available_timezones

    known = len(available_timezones())
    expect(known >= MIN_ZONES, f"Only {known} time zones are known, so the clock can't answer.")
    noon = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris")).astimezone(
        ZoneInfo("Asia/Tokyo")
    )
    expect(noon.hour == 19, "The time in Tokyo is wrong.")
    return f"{known} time zones"


def _package_version(package: str) -> str:
    """Return a package's version; what a build leaves out of its own record isn't worth a fault."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(importlib.import_module(package), "__version__", "")) or "(no version)"


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
    "cpython": Part(use_python, _PYTHON),
    "bundle": Part(open_libraries),
    "pysqlite3": Part(use_sqlite, packages=("pysqlite3",)),
    "msgspec": Part(use_settings, ("msgspec._core", "tomlkit", "filelock"), ("msgspec",)),
    "psutil": Part(use_machine, ("psutil",), ("psutil",)),
    "numpy": Part(
        use_numpy,
        ("numpy._core._multiarray_umath", "numpy.linalg._umath_linalg", "numpy.random"),
        ("numpy",),
    ),
    "onnxruntime": Part(use_onnxruntime, ("onnxruntime",), ("onnxruntime",)),
    "tokenizers": Part(use_tokenizers, ("tokenizers",), ("tokenizers",)),
    "cryptography": Part(
        use_cryptography,
        ("_cffi_backend", "cryptography.hazmat.bindings._rust"),
        ("cryptography", "cffi"),
    ),
    "litellm": Part(
        use_litellm,
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
    "certificates": Part(use_certificates, ("h11", "httpcore", "httpx", "certifi")),
    "hubs": Part(
        use_hubs,
        ("yaml._yaml", "charset_normalizer.md", "huggingface_hub"),
        ("pyyaml", "charset-normalizer"),
    ),
    "keyrings": Part(use_keyrings, ("keyring", *_KEYRING.get(sys.platform, ()))),
    "test key": Part(use_keyring),
    "jinja": Part(use_jinja, ("markupsafe._speedups",), ("markupsafe",)),
    "jsonschema": Part(use_jsonschema, ("rpds",), ("rpds-py",)),
    "units": Part(use_units, ("pint",)),
    "words": Part(use_words, ("text_to_num",), ("text2num",)),
    "zones": Part(use_zones, ("dateutil.relativedelta",)),
}
