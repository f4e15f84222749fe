"""One frozen tree of settings: defaults < config.toml < environment < command line.

Read once, in `cli`; other modules receive plain arguments. Secrets are never settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from baton.core.catalogue_types import OWN_MODELS_PREFIX, RULE_CONDUCTOR
from baton.core.errors import ConfigError
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.messages import DEFAULT_CONTEXT
from baton.core.money import parse_usd
from baton.core.plan_types import KINDS, Kind
from baton.platform.durable_files import (
    PRIVATE_FILE,
    hold_lock,
    make_folder,
    read_ordinary,
    replace_file,
)
from baton.platform.paths import find_paths
from baton.platform.secrets import is_not_key, key_variables, remove_keys
from baton.platform.settings_sources import (
    DOLLARS,
    MAX_FILE_BYTES,
    SettingsSource,
    amount_error,
    apply_changes,
    check_addresses,
    check_source,
    inverse_changes,
    merge_tree,
    read_environment,
    read_file,
    unknown_variables,
    value_error,
)

Mode = Literal["auto", "local", "mini", "ultra"]
MODES: tuple[Mode, ...] = get_args(Mode)
Effort = Literal["none", "low", "medium", "high"]
ThemeName = Literal[
    "dark",
    "light",
    "high-contrast",
    "atom-one-dark",
    "atom-one-light",
    "catppuccin-frappe",
    "catppuccin-latte",
    "catppuccin-macchiato",
    "catppuccin-mocha",
    "dracula",
    "flexoki",
    "gruvbox",
    "monokai",
    "nord",
    "rose-pine",
    "rose-pine-dawn",
    "rose-pine-moon",
    "solarized-dark",
    "solarized-light",
    "textual-dark",
    "textual-light",
    "tokyo-night",
]
Tokens = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
Threads = Annotated[int, msgspec.Meta(ge=0, le=1024)]
Layers = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Skill = Annotated[float, msgspec.Meta(ge=1, le=5)]
Slots = Annotated[int, msgspec.Meta(ge=1, le=64)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=5)]
TopK = Annotated[int, msgspec.Meta(ge=0, le=1000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Penalty = Annotated[float, msgspec.Meta(ge=0.1, le=10)]
Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Scale = Annotated[float, msgspec.Meta(ge=-10, le=10)]
Kv = Literal["f16", "q8_0"]
Dollars = Annotated[str, msgspec.Meta(description=DOLLARS)]

_LOCK_SECONDS = 10.0
"""How many seconds to wait for another Baton's change, which takes a few milliseconds."""

KindName = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(KINDS)})$")]


class BudgetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ceilings in US dollars, kept as text so that they stay exact; the file may have numbers.

    One that is "" sets no limit of its own, one that is "0" lets nothing through. Cloud stays off
    until one is above 0. `policy` says when to spend: ask each time, once for a conversation, not
    at all ("budget": within the ceilings), or never. `pace` says how much help must gain to be
    worth its price: frugal, balanced, or best. `wait` is how many seconds a call waits for money
    that other prompts hold.
    """

    session: Dollars = ""
    day: Dollars = ""
    month: Dollars = ""
    policy: Policy = Policy.ASK
    pace: SpendingStyle = SpendingStyle.BALANCED
    wait: Seconds = 30

    @property
    def ceilings(self) -> dict[Scope, int]:
        """The ceilings that are set, in nano-dollars. Raises ConfigError."""
        scopes = {Scope.SESSION: self.session, Scope.DAY: self.day, Scope.MONTH: self.month}
        return {scope: parse_usd(amount) for scope, amount in scopes.items() if amount}


class CloudSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How texts leave this machine, where they may.

    `redact` hides keys, addresses and numbers before that, and the user's own `words` as well.
    `effort` is how much a model may think. `proxy` is used besides HTTPS_PROXY, and before it.
    """

    redact: bool = True
    words: tuple[str, ...] = ()
    effort: Effort = "low"
    proxy: str = ""


class PriceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens. "" in the cache's rates is the input's."""

    input: Dollars
    output: Dollars
    cache_read: Dollars = ""
    cache_write: Dollars = ""


class _WorkerSettingsBase(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True
):
    """What all entries of `[[workers]]` share: `kind` says which one it is.

    `skills` says how difficult a task of a kind may be for the worker, from 1 to 5 ({code = 4}).
    """

    skills: dict[Kind, Skill] = {}


class CloudWorkerSettings(_WorkerSettingsBase, frozen=True, tag="cloud"):
    """A worker that costs money: `model` is a provider and its model, "openai/gpt-5-mini".

    `base_url` is another address that speaks the provider's protocol. `api_key_env` names the
    variable with the key; without it the provider's own is used, but not at another address.
    `context` and `max_output` are in tokens; `price` overrules the one that Baton knows; `slots` is
    how many requests may be on their way at once.
    """

    id: str
    model: str
    system: str | None = None
    base_url: str = ""
    api_key_env: str = ""
    price: PriceSettings | None = None
    context: Tokens | None = None
    max_output: Tokens = 4096
    temperature: float | None = None
    slots: Slots = 4


class ServerWorkerSettings(_WorkerSettingsBase, frozen=True, tag="server"):
    """An OpenAI-compatible engine at `base_url`: Ollama, LM Studio, llama-server, vLLM.

    A list in `base_url` names several addresses of the same model, over which calls are spread;
    `slots` is how many calls each takes at once: one number for all, or a list with one for each.
    `here` is the user's word that an engine on this machine also computes here, and doesn't
    forward: it is used without asking then. `privacy` "local" says the same, and lets private
    texts go to it; else how far texts travel follows from the address. `price` must be given for an
    engine that isn't on this machine.
    """

    id: str
    model: str
    base_url: str | tuple[str, ...]
    system: str | None = None
    api_key_env: str = ""
    here: bool = False
    privacy: Label | None = None
    price: PriceSettings | None = None
    context: Tokens | None = None
    max_output: Tokens = 4096
    temperature: float | None = None
    slots: Slots | tuple[Slots, ...] = 4

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it is, in the user's order."""
        return (self.base_url,) if isinstance(self.base_url, str) else self.base_url

    @property
    def address_slots(self) -> tuple[int, ...]:
        """How many calls each address takes at once."""
        if isinstance(self.slots, tuple):
            return self.slots
        return (self.slots,) * len(self.addresses)


class LocalWorkerSettings(_WorkerSettingsBase, frozen=True, tag="local"):
    """A worker on this machine: `model` is a GGUF file's path, `smollm2-135m` or a model's id.

    None in `context` (tokens), `threads`, `gpu_layers`, `kv` and `slots` means as in `[local]`; in
    `max_output` (tokens), `system` and how it chooses its words (`temperature`, `top_p`, `top_k`,
    `min_p`, `repeat_penalty`) what suits the model; in `seed` chance. `thinking` says whether it
    writes thoughts before its answers; None: only if it can't do otherwise. `adapter` is a LoRA
    adapter's GGUF file, put on with the strength `adapter_scale`. Workers that load the same model
    in the same way share it in memory. With `force` it is loaded however little memory is free.
    """

    id: str
    model: str = "smollm2-135m"
    system: str | None = None
    context: Tokens | None = None
    max_output: Tokens | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    top_k: TopK | None = None
    min_p: Share | None = None
    repeat_penalty: Penalty | None = None
    seed: Seed | None = None
    thinking: bool | None = None
    threads: Threads | None = None
    gpu_layers: Layers | None = None
    kv: Kv | None = None
    slots: Slots | None = None
    adapter: str = ""
    adapter_scale: Scale = 1.0
    force: bool = False


WorkerSettings = LocalWorkerSettings | CloudWorkerSettings | ServerWorkerSettings
WORKER_KINDS: Mapping[str, type[WorkerSettings]] = {
    "local": LocalWorkerSettings,
    "cloud": CloudWorkerSettings,
    "server": ServerWorkerSettings,
}
BUILT_IN_WORKER = LocalWorkerSettings("small")
"""The starter model's worker, which is always there; an entry with its id replaces it."""


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How local models run.

    `threads` 0 is one per physical core; `gpu_layers` -1 is as many as fit; `context` is in tokens;
    `kv` is how the context is kept: "q8_0" takes half the memory of "f16", and rounds. `memory_gb`
    0 is four fifths of what is here; a model that has been idle for `idle_minutes` is unloaded
    (0: never). `slots` is how many requests a model answers at once, within that context.
    """

    threads: Threads = 0
    gpu_layers: Layers = -1
    context: Tokens = DEFAULT_CONTEXT
    kv: Kv = "f16"
    memory_gb: Amount = 0
    idle_minutes: Amount = 10
    slots: Slots = 2


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How other programs are served, by `baton serve` and in the app.

    `aliases` are other names of models, with `*` for any text: {"claude-*" = "baton/auto"}; the
    first that fits counts. `allow_hosts` are host names under which Baton may be asked, and
    `allow_origins` the origins whose pages may ask.
    """

    aliases: dict[str, str] = {}
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()


class ScreenSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the app looks; `mouse` off leaves selecting to the terminal.

    `side_bar` is shown from 120 columns on. With `plain` it is a chat line by line instead, as with
    `--plain`.
    """

    theme: ThemeName = "dark"
    mouse: bool = True
    side_bar: bool = True
    plain: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set.

    `worker` is the id of the default worker, `conductor` of the one that draws plans ("": the one
    that comes with Baton; "rule": no model, only templates and the rule). `prefer` names the
    worker for tasks of a kind ({code = "qwen2.5-coder-7b"}). With `tools` off, nothing is computed
    or executed besides the models. With `warnings` off, no doubt is written beside an answer; JSON
    and traces have them all the same. With `daemon` off, no background process keeps models
    loaded between commands, and none is used; it ends when it wasn't used for `daemon_minutes`
    (0: never).
    """

    mode: Mode = "auto"
    offline: bool = False
    worker: str = "small"
    conductor: str = ""
    prefer: dict[KindName, str] = {}
    tools: bool = True
    warnings: bool = True
    daemon: bool = True
    daemon_minutes: Amount = 5
    budget: BudgetSettings = BudgetSettings()
    cloud: CloudSettings = CloudSettings()
    workers: tuple[WorkerSettings, ...] = ()
    local: LocalSettings = LocalSettings()
    serve: ServeSettings = ServeSettings()
    screen: ScreenSettings = ScreenSettings()
    keys: dict[str, str] = {}

    @property
    def roster(self) -> tuple[WorkerSettings, ...]:
        """The built-in workers and the user's own; the same id replaces."""
        return tuple({w.id: w for w in (BUILT_IN_WORKER, *self.workers)}.values())


def keyless_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a program of the user: all but keys, also workers' own."""
    kept = dict(environ)
    named: set[str] = set()
    with suppress(OSError):
        text = read_ordinary(find_paths(environ).config_file, MAX_FILE_BYTES)
        named = key_variables(text.decode("utf-8", "replace"))
    remove_keys(kept, *named)
    return kept


def load_settings(
    file: Path, environ: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Read all sources and return the settings; a missing file is an empty one.

    `flags` holds only what was typed. Raises ConfigError, naming the source and the nearest key.
    """
    return _combine(
        read_file(file),
        read_environment(environ, Settings),
        SettingsSource("the command line", dict(flags or {})),
    )


def configured_values(file: Path) -> dict[str, Any]:
    """Return what the file and the environment set, without the defaults. Raises ConfigError."""
    raw: dict[str, Any] = {}
    for source in (read_file(file), read_environment(os.environ, Settings)):
        merge_tree(raw, check_source(source, Settings, WORKER_KINDS))
    return raw


def ceiling_variables() -> dict[Scope, tuple[int, str]]:
    """Return the ceilings that the environment sets, each with its variable.

    Variables that can't be read set none: `load_settings` refuses them, so nothing is spent.
    """
    try:
        ceilings = _combine(read_environment(os.environ, Settings)).budget.ceilings
    except ConfigError:
        return {}
    return {scope: (most, f"BATON_BUDGET__{scope.upper()}") for scope, most in ceilings.items()}


def ignored_variables(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the variables that begin like settings and are none.

    Raises ConfigError for one that looks like a misspelt safety switch.
    """
    return unknown_variables(environ, Settings)


def write_settings(file: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change settings in the file, where all else stays as it is, comments too.

    `changes` is a tree like the file's, {"budget": {"day": "2"}}; None takes a setting out. The
    file is replaced as a whole, and not at all if the settings would be wrong. Returns the changes
    that take these back. Raises ConfigError.
    """
    import tomlkit

    with _lock_file(file):
        document = tomlkit.parse(read_file(file).text)
        inverse = inverse_changes(document.unwrap(), changes)
        apply_changes(document, changes)
        text = tomlkit.dumps(document)
        _combine(SettingsSource(str(file), document.unwrap(), text))
        _replace_file(file, text)
    return inverse


def replace_settings_text(file: Path, before: bytes, text: bytes) -> bool:
    """Replace the file's text if it still is the one before; return whether it was.

    Raises ConfigError.
    """
    with _lock_file(file):
        try:
            if read_ordinary(file, MAX_FILE_BYTES) != before:
                return False
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _write_error(file, error) from error
        _replace_file(file, text)
    return True


def _replace_file(file: Path, text: str | bytes) -> None:
    try:
        mode = file.stat().st_mode & 0o777 if file.exists() else PRIVATE_FILE
        replace_file(file, text, mode=mode)
    except OSError as error:
        raise _write_error(file, error) from error


@contextmanager
def _lock_file(file: Path) -> Iterator[None]:
    """Hold the file's lock from its reading to its writing. Raises ConfigError.

    Two models that arrive at once, in one Baton or two, would lose one of their roles.
    """
    with ExitStack() as held:
        try:
            make_folder(file.parent)
            held.enter_context(hold_lock(file.with_name(f".{file.name}.lock"), _LOCK_SECONDS))
        except TimeoutError as error:
            raise ConfigError(
                f"Another Baton has kept {file} locked for {_LOCK_SECONDS:.0f} seconds;"
                " nothing was changed.",
                "Wait for it, or end it, and try again.",
            ) from error
        except OSError as error:
            raise _write_error(file, error) from error
        yield


def _write_error(file: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{file} can't be written: {error.strerror}; it is as it was.",
        "Check its owner, and that the disk isn't full.",
    )


def _combine(*sources: SettingsSource) -> Settings:
    trees = [check_source(source, Settings, WORKER_KINDS) for source in sources]
    raw: dict[str, Any] = {}
    for tree in trees:
        merge_tree(raw, tree)
    raw["offline"] = any(tree.get("offline") for tree in trees)
    try:
        settings = msgspec.convert(raw, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise value_error(str(error), sources, Settings, WORKER_KINDS) from error
    _check_workers(sources)
    for scope in Scope.SESSION, Scope.DAY, Scope.MONTH:
        try:
            parse_usd(getattr(settings.budget, scope) or "0")
        except ConfigError as error:
            raise amount_error(sources, ("budget", str(scope)), error) from error
    return settings


def _check_workers(sources: Sequence[SettingsSource]) -> None:
    """Refuse entries that would make another worker than the user means."""
    for source in sources:
        seen: set[str] = set()
        for number, entry in enumerate(source.tree.get("workers", ())):
            id, place = entry["id"], source.place(("workers", number))
            if not id.strip():
                raise ConfigError(f"A worker has no id (in {place}).", "Give it one.")
            if id.strip().lower().startswith(OWN_MODELS_PREFIX) or id == RULE_CONDUCTOR:
                raise ConfigError(
                    f"A worker can't be called {id!r}, which means something else (in {place}).",
                    "Give it another id.",
                )
            if id in seen:
                raise ConfigError(
                    f"There are two workers {id!r} (in {place}).", "Give one of them another id."
                )
            seen.add(id)
            if is_not_key(variable := entry.get("api_key_env", "")):
                raise ConfigError(
                    f"The variable {variable} holds no key, and would be sent as one"
                    f" (in {source.place(('workers', number, 'api_key_env'))}).",
                    'Name the variable with the key, for example api_key_env = "LAB_KEY".',
                )
            check_addresses(entry, source, ("workers", number))
            if "model" not in entry and id != BUILT_IN_WORKER.id:
                raise ConfigError(
                    f"The worker {id!r} names no model (in {place}).",
                    'Add a line with it, for example model = "~/models/some-model.gguf".',
                )
