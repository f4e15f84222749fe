"""The providers' keys: in the system's keyring, the environment, or a plaintext file.

Used by the gateway child, which alone keeps them in memory, and by `baton keys`. Looked for in that
order; the file exists only where the user said yes to it. No wait for a keyring is longer
than a few seconds: a locked one can block for ever.

Only the system's own keyring is ever asked. The library `keyring` by itself would import every
backend that it knows, of which that for macOS starts a compiler and a linker on Linux, and besides
the one that `PYTHON_KEYRING_BACKEND` or `keyringrc.cfg` names: code from any folder, beside keys.
Here the file is not read, and the variable, where it names another keyring, switches them off.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import field
from pathlib import Path
from string import whitespace
from typing import TYPE_CHECKING, Generic, TypeVar

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.platform.durable_files import make_folder, replace_file

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

T = TypeVar("T")

KEYRING_SERVICE = "baton"
"""The name under which keys stand in a keyring."""

KEYRING = {
    "darwin": "keyring.backends.macOS.Keyring",
    "win32": "keyring.backends.Windows.WinVaultKeyring",
}.get(sys.platform, "keyring.backends.SecretService.Keyring")
"""The system's own keyring, by the library's name of it."""

KEYRING_SECONDS = 5.0
"""How many seconds a keyring may take to answer."""

_MAX_KEY_CHARS = 4096
_TAIL_CHARS = 4
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*_(?:API_)?(?:KEY|TOKEN)(?:_[A-Z]+)?\s*=")

KEY_EDGES = f"{whitespace}\xa0\ufeff\u200b\u2060\"'`\u201c\u201d\u201e\u2018\u2019\u201a\xab\xbb"
"""What pasting, `docker --env-file` and word processors put around a key; none begins with it."""

_MAX_FILE_BYTES = 1 << 20


@frozen_dataclass
class Provider:
    """A seller of answers: its name in models' names and for people, its key, and its address.

    Without an address each customer has an own one, which a worker's `base_url` names.
    """

    name: str
    title: str
    variable: str
    base_url: str
    also: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in which its key may stand, the usual one first."""
        return (self.variable, *self.also)


ALLOWED_VARIABLES = frozenset(
    {
        "HIP_VISIBLE_DEVICES",
        "HOME",
        "LANG",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "PATH",
        "PYTHONPATH",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "XDG_DATA_DIRS",  # where some systems keep their GPUs' drivers
    }
)
ALLOWED_PREFIXES = ("CUDA_", "GGML_", "GOMP_", "OMP_", "VK_")
"""What a program needs of the environment: nothing that could be a secret."""

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("openai", "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1"),
        Provider("anthropic", "Anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        Provider(
            "gemini",
            "Gemini",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta",
            also=("GOOGLE_API_KEY",),
        ),
        Provider("openrouter", "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"),
        Provider("mistral", "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1"),
        Provider("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com"),
        Provider("groq", "Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1"),
        Provider("xai", "xAI", "XAI_API_KEY", "https://api.x.ai/v1"),
        Provider("azure", "Azure", "AZURE_OPENAI_API_KEY", "", also=("AZURE_API_KEY",)),
        Provider("bedrock", "Amazon Bedrock", "AWS_BEARER_TOKEN_BEDROCK", ""),
        Provider("bedrock_mantle", "Amazon Bedrock", "BEDROCK_MANTLE_API_KEY", ""),
        Provider("cerebras", "Cerebras", "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1"),
        Provider(
            "cohere",
            "Cohere",
            "COHERE_API_KEY",
            "https://api.cohere.com/v2/chat",
            also=("CO_API_KEY",),
        ),
        Provider(
            "fireworks_ai",
            "Fireworks",
            "FIREWORKS_API_KEY",
            "https://api.fireworks.ai/inference/v1",
            also=("FIREWORKS_AI_API_KEY",),
        ),
        Provider("huggingface", "Hugging Face", "HF_TOKEN", "https://router.huggingface.co/v1"),
        Provider("moonshot", "Moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1"),
        Provider("novita", "Novita", "NOVITA_API_KEY", "https://api.novita.ai/v3/openai"),
        Provider("perplexity", "Perplexity", "PERPLEXITY_API_KEY", "https://api.perplexity.ai/v1"),
        Provider("sambanova", "SambaNova", "SAMBANOVA_API_KEY", "https://api.sambanova.ai/v1"),
        Provider(
            "together_ai",
            "Together",
            "TOGETHER_API_KEY",
            "https://api.together.xyz/v1",
            also=("TOGETHERAI_API_KEY",),
        ),
        Provider(
            "vercel_ai_gateway",
            "Vercel's AI Gateway",
            "AI_GATEWAY_API_KEY",
            "https://ai-gateway.vercel.sh/v1",
        ),
        Provider(
            "vertex_ai",
            "Vertex AI",
            "VERTEX_AI_API_KEY",
            "https://aiplatform.googleapis.com/v1/publishers/google",
        ),
        Provider("zai", "Z.ai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4"),
    )
}

ADDRESS_EXAMPLES = {
    "azure": "https://NAME.openai.azure.com/openai/v1",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
    "bedrock_mantle": "https://bedrock-mantle.us-east-1.api.aws/v1",
}
"""What the addresses look like of those whose customers or regions have own ones."""


@frozen_dataclass
class Key:
    """A key, and where it was found: "keyring", a variable's name, or the file's path."""

    value: str = field(repr=False)
    source: str

    @property
    def tail(self) -> str:
        """The last four characters, by which the user knows it; none of a short one."""
        return self.value[-_TAIL_CHARS:] if len(self.value) >= 4 * _TAIL_CHARS else ""


class NoKeyring(ConfigError):
    """There is no keyring here that keeps a key."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The key was not kept: {why}.",
            "Set the provider's environment variable instead, or keep it as plain text with "
            "--plaintext.",
        )
        self.why = why


def plain_environ(
    environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> dict[str, str]:
    """Return what a program that Baton starts by itself may know of the environment.

    `also` names what only this one needs.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in ALLOWED_VARIABLES or name in also or name.startswith(ALLOWED_PREFIXES)
    }


def is_not_key(variable: str) -> bool:
    """Whether programs need this variable, or Baton's settings stand in it."""
    plain = variable in ALLOWED_VARIABLES or variable.startswith(ALLOWED_PREFIXES)
    return plain or (variable.startswith("BATON_") and not variable.endswith("_API_KEY"))


def remove_keys(environ: MutableMapping[str, str], *variables: str) -> None:
    """Take the keys out of an environment, so that no other program is started with them."""
    known = {name for provider in PROVIDERS.values() for name in provider.variables}
    known |= {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}
    for name in list(environ):
        if name in known or name in variables or name.endswith("_API_KEY"):
            del environ[name]


def key_variables(config: str) -> set[str]:
    """Return the variables that any `api_key_env` of a config.toml names, also a broken one."""
    named = re.findall(r"""api_key_env["']?\s*=\s*["']+([^"'\s]+)""", config)
    return {variable for variable in named if not is_not_key(variable)}


def find_key(
    provider: str,
    *,
    variable: str = "",
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Key | None:
    """Return the key for a provider, or None.

    With `variable`, a worker's own, only what stands under that name is looked at: a provider's key
    must never go to another's address. Raises ConfigError for a key or a file that can't be used.
    """
    name = variable or provider
    found = _from_keyring([name])
    if name in found:
        return found[name]
    return _from_environment(name, environ) or _key_in_file(name, file, _read_key_file(file))


def find_keys(
    names: Iterable[str] = PROVIDERS,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Key]:
    """Return the key that `find_key` returns for each of these names, where there is one."""
    wanted = list(names)
    first, last = _from_keyring(wanted), _read_key_file(file)
    found = {
        name: first.get(name) or _from_environment(name, environ) or _key_in_file(name, file, last)
        for name in wanted
    }
    return {name: key for name, key in found.items() if key is not None}


def save_key(name: str, value: str, *, file: Path | None = None) -> Key:
    """Keep a key: in the keyring, or as plain text in `file` if the user said yes to that.

    Raises NoKeyring, and ConfigError for what isn't a key or a file that can't be written.
    """
    value = check_key(value)
    if file is not None:
        _write_key_file(file, _read_key_file(file) | {name: value})
        return Key(value, str(file))

    def keep(keyring: KeyringBackend) -> bool:
        keyring.set_password(KEYRING_SERVICE, name, value)
        # Some accept all and keep nothing.
        return keyring.get_password(KEYRING_SERVICE, name) == value

    done = _ask_keyring(keep)
    if not done.answer:
        raise NoKeyring(done.why or "the keyring accepted it, but doesn't have it")
    return Key(value, "keyring")


def remove_key(name: str, *, file: Path | None = None) -> list[str]:
    """Remove a key from keyring and file; return where it was. Variables stay as they are.

    Raises ConfigError if the file can't be changed, or the keyring can't be asked.
    """
    removed = []
    kept = _read_key_file(file)
    if file is not None and kept.pop(name, None) is not None:
        _write_key_file(file, kept)
        removed.append(str(file))

    def forget(keyring: KeyringBackend) -> bool:
        if keyring.get_password(KEYRING_SERVICE, name) is None:
            return False
        keyring.delete_password(KEYRING_SERVICE, name)
        return True

    done = _ask_keyring(forget)
    if done.why not in ("", _NO_KEYRING, _OTHER_KEYRING):
        where = f"It was removed from {file}. " if removed else ""
        raise ConfigError(
            f"{where}Whether the keyring has this key is not known: {done.why}.",
            "Unlock the keyring, then try again.",
        )
    return ["keyring", *removed] if done.answer else removed


def check_key(value: str, where: str = "") -> str:
    """Return a key without what pasting adds around it: spaces, quotation marks, a byte-order mark.

    Raises ConfigError, never quoting it.
    """
    value = value.strip(KEY_EDGES)
    what = f"The key in {where}" if where else "That"
    if not value:
        raise ConfigError(f"{what} is empty.", "Paste the key as the provider shows it.")
    if _ASSIGNMENT.match(value) or any(mark in value for mark in "\"'`"):
        raise ConfigError(
            f"{what} is more than a key: a variable's name or a quotation mark is in it.",
            "Paste the key alone, as the provider shows it.",
        )
    if len(value) > _MAX_KEY_CHARS or not all("!" <= character <= "~" for character in value):
        raise ConfigError(
            f"{what} is not a key: a key is one word of plain letters, digits and signs.",
            "Paste the key alone, as the provider shows it.",
        )
    return value


def keyring_status() -> tuple[str, str]:
    """Return the name of this machine's keyring, or "" and why there is none that can be used."""
    found = _ask_keyring(lambda keyring: type(keyring).__module__)
    return found.answer or "", found.why


def _from_environment(name: str, environ: Mapping[str, str]) -> Key | None:
    provider = PROVIDERS.get(name)
    for variable in provider.variables if provider else (name,):
        if value := environ.get(variable, "").strip(KEY_EDGES):
            return Key(check_key(value, variable), variable)
    return None


# The keyring


@frozen_dataclass
class _Answer(Generic[T]):
    """What a keyring answered, or why it didn't."""

    answer: T | None
    why: str = ""


_NO_KEYRING = "this machine has no keyring"
_OTHER_KEYRING = (
    "PYTHON_KEYRING_BACKEND names another than the system's own, which Baton doesn't load"
)
_stuck_thread: threading.Thread | None = None


def _from_keyring(names: list[str]) -> dict[str, Key]:
    def look(keyring: KeyringBackend) -> dict[str, str]:
        found = {name: keyring.get_password(KEYRING_SERVICE, name) for name in names}
        return {name: value for name, value in found.items() if value}

    found = _ask_keyring(look).answer or {}
    return {
        name: Key(check_key(value, f"the keyring for {name}"), "keyring")
        for name, value in found.items()
    }


def _ask_keyring(question: Callable[[KeyringBackend], T]) -> _Answer[T]:
    """Put a question to the keyring, in a thread that is left behind when it takes too long.

    While one is stuck, no call waits again. Errors show their class alone: a backend's own words
    may quote what it was given.
    """
    global _stuck_thread
    locked: _Answer[T] = _Answer(
        None, f"the keyring didn't answer within {KEYRING_SECONDS:.0f} s; is it locked?"
    )
    if _stuck_thread is not None and _stuck_thread.is_alive():
        return locked
    box: list[_Answer[T]] = []
    thread = threading.Thread(target=lambda: box.append(_answer(question)), daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if not box:
        _stuck_thread = thread
        return locked
    return box[0]


def _answer(question: Callable[[KeyringBackend], T]) -> _Answer[T]:
    try:
        return _Answer(question(_load_keyring()))
    except _KeyringMissing as error:
        return _Answer(None, str(error))
    except Exception as error:  # backends pass on any error of the desktop's own parts
        return _Answer(None, f"the keyring can't be used ({type(error).__name__})")


class _KeyringMissing(Exception):
    """There is no keyring to ask; the text says why."""


def _load_keyring() -> KeyringBackend:
    """Return the system's own keyring. Raises _KeyringMissing."""
    if os.environ.get("PYTHON_KEYRING_BACKEND", "") not in ("", KEYRING):
        raise _KeyringMissing(_OTHER_KEYRING)
    from keyring.core import load_keyring

    try:
        return load_keyring(KEYRING)
    except RuntimeError:  # so the library says that a backend can't work here
        raise _KeyringMissing(_NO_KEYRING) from None


# The plaintext file


_READ_FLAGS = sum(
    getattr(os, name, 0) for name in ("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
)
_FILE_HEADER = "# Keys as PLAIN TEXT: anyone who can read this file can spend your money.\n"


def _key_in_file(name: str, file: Path | None, keys: Mapping[str, str]) -> Key | None:
    if name not in keys:
        return None
    return Key(check_key(keys[name], f"{file} for {name}"), str(file))


def _read_key_file(file: Path | None) -> dict[str, str]:
    """Read the file of keys. Raises ConfigError if others can read it, too."""
    if file is None:
        return {}
    try:
        descriptor = os.open(file, _READ_FLAGS)
        try:
            _require_private(file, os.fstat(descriptor))
            raw = os.read(descriptor, _MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}.", "Check it.") from error
    return _parse_keys(file, raw)


def _require_private(file: Path, status: os.stat_result) -> None:
    if sys.platform == "win32":
        return  # which has no such modes, and a folder for each user
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise ConfigError(f"{file} is not a file of yours, so no key was used.", "Remove it.")
    if status.st_mode & 0o077:
        raise ConfigError(
            f"Others on this machine can read {file}, so no key in it was used.",
            f"`chmod 600 {file}`; better, get new keys from the provider as well.",
        )


def _parse_keys(file: Path, raw: bytes) -> dict[str, str]:
    import tomllib

    try:
        table = tomllib.loads(raw.decode("utf-8-sig"))
    except ValueError:  # its words might quote a key
        raise ConfigError(f"{file} is not valid TOML.", "Correct or remove it.") from None
    return {name: value for name, value in table.items() if isinstance(value, str)}


def _write_key_file(file: Path, keys: Mapping[str, str]) -> None:
    """Replace the file as a whole; at no moment can others read it."""
    import json

    lines = [f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in keys.items()]
    try:
        make_folder(file.parent)
        if file.parent.stat().st_mode & 0o077:
            file.parent.chmod(0o700)
        if not keys:
            return file.unlink(missing_ok=True)
        replace_file(file, _FILE_HEADER + "".join(lines))
    except OSError as error:
        raise ConfigError(f"{file} can't be written: {error.strerror}.", "Check it.") from error
