"""Four sources, one tree; every mistake is named."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import example, given, strategies as some

from baton.compose.worker_entries import append_workers
from baton.core.errors import ConfigError
from baton.core.ledger_types import Scope
from baton.core.money import parse_usd
from baton.core.plan_types import KINDS
from baton.platform.paths import find_paths
from baton.platform.settings import (
    LocalWorkerSettings,
    ServerWorkerSettings,
    Settings,
    ignored_variables,
    keyless_environ,
    load_settings,
    write_settings as change,
)
from baton.platform.settings_sources import FALSE_WORDS, TRUE_WORDS

SERVER = '[[workers]]\nid = "a"\nkind = "server"\nmodel = "m"\n'
"""An entry that lacks its address, of four lines."""


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_server_may_have_one_address_or_several(tmp_path: Path) -> None:
    one = load_settings(write(tmp_path, f'{SERVER}base_url = "http://a/v1"\nslots = 3'), {})
    [server] = one.workers
    assert isinstance(server, ServerWorkerSettings)
    assert (server.addresses, server.address_slots) == (("http://a/v1",), (3,))
    urls = '["http://a/v1", "http://b:8000/v1"]'
    for slots, known in ("", (4, 4)), ("slots = 8", (8, 8)), ("slots = [2, 16]", (2, 16)):
        [server] = load_settings(write(tmp_path, f"{SERVER}base_url = {urls}\n{slots}"), {}).workers
        assert isinstance(server, ServerWorkerSettings)
        assert server.addresses == ("http://a/v1", "http://b:8000/v1")
        assert server.address_slots == known


def test_no_file_and_no_environment_are_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "none.toml", {}) == Settings()
    assert [worker.id for worker in Settings().roster] == ["small"]


def test_a_flag_beats_the_environment_beats_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[local]\nthreads = 1\ncontext = 2048\nidle_minutes = 3\n")
    environ = {"BATON_LOCAL__THREADS": "2", "BATON_LOCAL__CONTEXT": "4096"}
    local = load_settings(file, environ, {"local": {"threads": 4}}).local
    assert (local.threads, local.context, local.idle_minutes) == (4, 4096, 3)


@pytest.mark.parametrize("source", ["file", "environment", "flag"])
def test_offline_is_on_if_any_source_says_so(tmp_path: Path, source: str) -> None:
    file = write(tmp_path, "offline = true" if source == "file" else "offline = false")
    environ = {"BATON_OFFLINE": "1" if source == "environment" else "0"}
    flags = {"offline": source == "flag"}
    assert load_settings(file, environ, flags).offline


@pytest.mark.parametrize("said", ["1", "true", "YES", "on", "y", " 1", "On ", "Y"])
def test_a_switch_that_says_yes_is_on(tmp_path: Path, said: str) -> None:
    assert load_settings(tmp_path / "none", {"BATON_OFFLINE": said}).offline
    assert load_settings(write(tmp_path, f"offline = {json.dumps(said)}"), {}).offline


@pytest.mark.parametrize("said", ["0", "false", "NO", "off", "n", " 0"])
def test_a_switch_that_says_no_is_off(tmp_path: Path, said: str) -> None:
    assert not load_settings(tmp_path / "none", {"BATON_OFFLINE": said}).offline
    assert not load_settings(write(tmp_path, f"offline = {json.dumps(said)}"), {}).offline
    assert not load_settings(tmp_path / "none", {"BATON_CLOUD__REDACT": said}).cloud.redact


@given(some.text(min_size=1))
@example("enabled")
@example("treu")
@example("2")
@example("banana")
@example(" ")
def test_a_switch_is_read_or_refused_and_never_guessed(said: str) -> None:
    """A safety switch that can't be read must not mean that it is off."""
    word = said.strip().lower()
    for name in ("BATON_OFFLINE", "BATON_CLOUD__REDACT"):
        if word not in TRUE_WORDS | FALSE_WORDS:
            with pytest.raises(ConfigError, match="neither on nor off"):
                load_settings(Path("none"), {name: said})
            continue
        settings = load_settings(Path("none"), {name: said})
        on = settings.offline if name == "BATON_OFFLINE" else settings.cloud.redact
        assert on is (word in TRUE_WORDS)


@pytest.mark.parametrize("text", ["offline = 2", 'offline = ""', "offline = []", "offline = 1.5"])
def test_a_switch_in_the_file_is_read_or_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"'offline' is neither on nor off \(in .*, line 1\)"):
        load_settings(write(tmp_path, text), {})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("BATON_OFLINE", "BATON_OFFLINE"),
        ("BATON_OFFLINE_", "BATON_OFFLINE"),
        ("BATON__OFFLINE", "BATON_OFFLINE"),
        ("BATON_BUGDET__DAY", "BATON_BUDGET__DAY"),
        ("BATON_BUDGET_DAY", "BATON_BUDGET__DAY"),
        ("BATON_DAY", ""),
        ("BATON_POLICY", "BATON_BUDGET__POLICY"),
        ("BATON_REDACT", "BATON_CLOUD__REDACT"),
        ("BATON_PRIVATE", ""),
        ("BATON_OFF_LINE", "BATON_OFFLINE"),
        ("BATON_NO_NETWORK", ""),
        ("BATON_PRIVACY", ""),
        ("BATON_NO_HISTORY", ""),
        ("BATON_LIMIT", ""),
        ("baton_offline", "BATON_OFFLINE"),
        ("BATON_Offline", "BATON_OFFLINE"),
        ("BATONOFFLINE", "BATON_OFFLINE"),
        ("BATON-OFFLINE", "BATON_OFFLINE"),
        ("Baton.Budget.Day", "BATON_BUDGET__DAY"),
    ],
)
def test_a_variable_that_looks_like_a_safety_switch_is_refused(name: str, near: str) -> None:
    for refuses in (
        lambda: load_settings(Path("none"), {name: "1"}),
        lambda: ignored_variables({name: "1"}),
    ):
        with pytest.raises(ConfigError) as caught:
            refuses()
        assert f"no setting {name} (in the environment)" in caught.value.message
        assert near in caught.value.hint


@pytest.mark.parametrize(
    "name", ["BATON_FOO", "BATON_LOCAL__THREAD", "BATON_VERSION", "BATON_", "BATON_mode"]
)
def test_a_foreign_variable_stops_nothing(name: str) -> None:
    assert load_settings(Path("none"), {name: "1"}) == Settings()
    assert ignored_variables({name: "1", "BATON_HOME": "x", "BATON_MODE": "mini"}) == [name]


@pytest.mark.parametrize("name", ["BATONS", "baton_dir", "BATONROUGE_DAY", "MY_BATON_OFFLINE"])
def test_a_variable_of_another_program_is_not_even_named(name: str) -> None:
    assert ignored_variables({name: "1"}) == []


@pytest.mark.parametrize("value", ["2", "0.1", "1e-7", '"0.1"', "0.30", "1_000"])
def test_amounts_of_money_may_be_numbers_and_stay_exact(tmp_path: Path, value: str) -> None:
    exact = parse_usd(value.strip('"').replace("_", ""))
    assert load_settings(write(tmp_path, f"[budget]\nday = {value}"), {}).budget.ceilings == {
        Scope.DAY: exact
    }
    entry = f'[[workers]]\nid = "x"\nkind = "cloud"\nmodel = "a/b"\nprice = {{ input = {value}'
    price = load_settings(write(tmp_path, f"{entry}, output = {value} }}"), {}).workers[0].price  # type: ignore[union-attr]
    assert price is not None
    assert (parse_usd(price.input), parse_usd(price.output)) == (exact, exact)


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-1", "true", "[1]", "2000000", '"0_05"', f'"{"9" * 5000}"']
)
def test_what_is_not_an_amount_of_money_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"'budget\.day'.*, line 2\)") as caught:
        load_settings(write(tmp_path, f"[budget]\nday = {value}"), {})
    assert len(str(caught.value)) < 500


def test_an_editor_that_corrects_it_finds_its_programs(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    write(tmp_path / "config", 'api_key_env = "PATH"\nsecond.api_key_env = "LAB"')
    environ = {"BATON_HOME": str(tmp_path), "PATH": "/bin", "LAB": "a key"}
    assert keyless_environ(environ) == {"BATON_HOME": str(tmp_path), "PATH": "/bin"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('\nmode = "fast"', "line 2", "auto, local, mini, ultra"),
        ('[budget]\n\npolicy = "yes"', "line 3", "ask, once, budget, never"),
        ('[budget]\npace = "slow"', "line 2", "frugal, balanced, best"),
        ('screen.theme = "red"', "line 1", "dark, light, high-contrast"),
        ('[[workers]]\nid = "a"\nmodel = "m"\n[[workers]]\nid = "b"\nmodel = "m"\nkv = "q4"',
         "line 7", "f16, q8_0"),
        ('[[workers]]\nkind = "spaceship"', "line 2", "local, cloud, server"),
        ('[[workers]]\nid = "a"', "'a' names no model", "model ="),
        ('[[workers]]\nid = "a"\nmodel = "m"\n[[workers]]\nid = "a"\nmodel = "n"',
         "two workers 'a'", "another id"),
        ('[[workers]]\nid = " "\nmodel = "m"', "line 1", "Give it one"),
        ("[local]\nthread = 2", "line 2", "'threads'"),
        (f"{SERVER}base_url = []", "list of addresses of the worker 'a' is empty", "at least one"),
        (f'{SERVER}base_url = ["http://a/v1", "http://b/v1", "http://a:80/v1/"]',
         "has the address http://a:80/v1/ twice", "each address once"),
        (f'{SERVER}base_url = ["http://localhost:8/v1", "http://127.0.0.1:8/v1"]',
         "line 5", "each address once"),
        (f'{SERVER}base_url = ["http://a/v1", "http://b/api/v1"]',
         "different paths, /v1 and /api/v1", "another worker"),
        (f'{SERVER}base_url = ["http://a/v1", "http://b/v1"]\nslots = [2]',
         "2 addresses and slots for 1", "one number"),
        (f'{SERVER}base_url = "http://a/v1"\nslots = [2, 3]', "line 6", "one number"),
        (f'{SERVER}base_url = ["http://a/v1", 3]', "line 5", "config edit"),
        *(
            (f'[[workers]]\nid = "a"\nkind = "cloud"\nmodel = "m"\napi_key_env = "{variable}"',
            "line 5", "Name the variable with the key")
            for variable in ("PATH", "HOME", "CUDA_VISIBLE_DEVICES", "BATON_HOME")
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_its_line_and_what_is_allowed(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, text), {})
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_mistake_is_blamed_on_the_source_that_rules(tmp_path: Path) -> None:
    file = write(tmp_path, 'mode = "mini"')
    with pytest.raises(ConfigError, match=r"can't be 'fast' \(in the environment\)"):
        load_settings(file, {"BATON_MODE": "fast"})
    with pytest.raises(ConfigError, match=r"can't be 'quick' \(in the command line\)"):
        load_settings(file, {"BATON_MODE": "fast"}, {"mode": "quick"})


def test_the_built_in_worker_can_be_changed_without_naming_its_model(tmp_path: Path) -> None:
    file = write(tmp_path, '[[workers]]\nid = "small"\nmax_output = 64')
    assert load_settings(file, {}).roster[0].max_output == 64


def test_a_worker_of_the_same_id_replaces_the_built_in(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[[workers]]\nid = "small"\nmodel = "mine.gguf"\n[[workers]]\nid = "big"\nmodel = "b.gguf"',
    )
    roster = load_settings(file, {}).roster
    assert [(w.id, w.model) for w in roster] == [("small", "mine.gguf"), ("big", "b.gguf")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ofline = true", "Did you mean 'offline'"),
        ("[local]\nthread = 2", "Did you mean 'threads'"),
        ('[[workers]]\nid = "a"\nmodle = "b"', "Did you mean 'model'"),
        ('mode = "fast"', "'mode' can't be 'fast'"),
        ('[local]\nthreads = "many"', "'local.threads' is wrong"),
        ('[budget]\nday = "lots"', "not an amount"),
        ("mode = ", "not valid TOML"),
        ('[[workers]]\nmodel = "x"', "'workers"),
        ('[[workers]]\nid = "a"\ntop_p = 1.5', "'workers[0].top_p' is wrong"),
        ('[[workers]]\nid = "a"\ntop_k = -1', "'workers[0].top_k' is wrong"),
        ('[[workers]]\nid = "a"\nmin_p = 2', "'workers[0].min_p' is wrong"),
        ('[[workers]]\nid = "a"\nrepeat_penalty = 0', "'workers[0].repeat_penalty' is wrong"),
        ('[[workers]]\nid = "a"\ntemperature = -1', "'workers[0].temperature' is wrong"),
        ('[[workers]]\nid = "a"\nseed = 4294967296', "'workers[0].seed' is wrong"),
        ('[[workers]]\nid = "a"\nthinking = "maybe"', "'workers.0.thinking' is neither on nor off"),
        ('[[workers]]\nid = "a"\nkv = "q4"', "'workers[0].kv' can't be 'q4'"),
        ('[[workers]]\nid = "a"\nadapter_scale = 99', "'workers[0].adapter_scale' is wrong"),
        ('[local]\nkv = "q4"', "'local.kv' can't be 'q4'"),
        ('[[workers]]\nid = "a"\ntemperature = nan', "'workers[0].temperature' is wrong"),
        ('[[workers]]\nid = "a"\nthreads = -1', "'workers[0].threads' is wrong"),
        ('[[workers]]\nid = "a"\ngpu_layers = -2', "'workers[0].gpu_layers' is wrong"),
        ('[[workers]]\nid = "a"\ncontext = 9999999999', "'workers[0].context' is wrong"),
        ("[local]\nthreads = -1", "'local.threads' is wrong"),
        ("[local]\ngpu_layers = -2", "'local.gpu_layers' is wrong"),
        ("[local]\ncontext = 0", "'local.context' is wrong"),
        ("[local]\nmemory_gb = -3", "'local.memory_gb' is wrong"),
        ("[local]\nmemory_gb = nan", "'local.memory_gb' is wrong"),
        ("[local]\nidle_minutes = -1", "'local.idle_minutes' is wrong"),
        ("[local]\nidle_minutes = inf", "'local.idle_minutes' is wrong"),
        ('[prefer]\ncod = "a"', "'prefer' is wrong"),
        ("local = 3", "'local' is wrong"),
        ("workers = 3", "'workers' is wrong"),
        ('[[workers]]\nid = "a"\nkind = []', "no kind of worker []"),
        ('[[workers]]\nid = "a"\nkind = {}', "no kind of worker {}"),
        ("[local]\nthreads = 1" + "0" * 5000, "is not valid TOML"),
        ("worker = " + "[" * 5000 + "]" * 5000, "is not valid TOML"),
        ("a" * 5000 + " = 1", "no setting 'aaa"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, text), {})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_how_a_worker_here_writes(tmp_path: Path) -> None:
    text = """
[prefer]
code = "mine"
[[workers]]
id = "mine"
model = "base.gguf"
temperature = 0.6
top_p = 0.95
top_k = 20
min_p = 0
repeat_penalty = 1.05
seed = 7
thinking = true
kv = "q8_0"
adapter = "sql.gguf"
adapter_scale = 0.5
force = true
"""
    settings = load_settings(write(tmp_path, text), {"BATON_PREFER__MATH": "small"})
    mine = settings.roster[-1]
    assert isinstance(mine, LocalWorkerSettings)
    assert (mine.temperature, mine.top_p, mine.top_k, mine.min_p) == (0.6, 0.95, 20, 0)
    assert (mine.repeat_penalty, mine.seed, mine.thinking) == (1.05, 7, True)
    assert (mine.kv, mine.adapter, mine.adapter_scale) == ("q8_0", "sql.gguf", 0.5)
    assert mine.force
    assert settings.prefer == {"code": "mine", "math": "small"}
    assert (settings.local.kv, LocalWorkerSettings("x").kv, LocalWorkerSettings("x").force) == (
        "f16",
        None,
        False,
    )


def test_an_empty_variable_lifts_no_ceiling(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[budget]\nday = "2"\nmonth = "20"\n')
    assert load_settings(file, {"BATON_BUDGET__DAY": ""}).budget.day == "2"
    assert load_settings(file, {"BATON_BUDGET__DAY": "1"}).budget.day == "1"


@pytest.mark.parametrize("kind", ["cloud", "server"])
@pytest.mark.parametrize("name", ["max_output", "context"])
def test_no_remote_worker_writes_less_than_a_token(tmp_path: Path, kind: str, name: str) -> None:
    """A negative cap made a hold negative, and the ledger look damaged."""
    file = tmp_path / "config.toml"
    address = 'base_url = "http://127.0.0.1:1/v1"\n' if kind == "server" else ""
    entry = f'[[workers]]\nid = "x"\nkind = "{kind}"\nmodel = "openai/m"\n{address}'
    for wrong in (0, -1_000_000):
        file.write_text(f"{entry}{name} = {wrong}\n")
        with pytest.raises(ConfigError, match=name):
            load_settings(file, {})


def test_mistakes_in_the_environment_are_named() -> None:
    with pytest.raises(ConfigError, match="in the environment"):
        load_settings(Path("none"), {"BATON_BUGDET__DAY": "2"})


@pytest.mark.parametrize("name", ["BATON_WORKER", "BATON_LOCAL__THREADS"])
def test_a_variable_that_is_not_text_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not UTF-8"):
        load_settings(Path("none"), {name: os.fsdecode(b"\xff")})


def test_a_file_that_is_not_text_or_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_settings(file, {})
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings(tmp_path, {})


BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_none_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(BOM + b'mode = "local"\r\n# mine\r\n')
    assert load_settings(file, {}).mode == "local"
    change(file, {"budget": {"day": "1"}})
    assert load_settings(file, {}).budget.day == "1"
    assert b"# mine\r\n" in file.read_bytes()
    append_workers(file, [{"id": "a", "kind": "server", "model": "m", "base_url": "http://a/v1"}])
    assert [worker.id for worker in load_settings(file, {}).workers] == ["a"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_what_notepad_calls_unicode_is_named(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes('mode = "local"\r\n'.encode(encoding))
    with pytest.raises(ConfigError, match=r"config.toml is not UTF-8 text but UTF-16.*Notepad"):
        load_settings(file, {})
    file.write_bytes(b'mode = "local"\n# gr\xfc\xdfe\n')
    with pytest.raises(ConfigError, match=r"config.toml is not UTF-8 text \(at line 2\)"):
        load_settings(file, {})


@pytest.mark.parametrize("kind", ["server", "cloud"])
@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("127.0.0.1:8000/v1", "Write http://127.0.0.1:8000/v1."),
        ("localhost:11434/v1", "Write http://localhost:11434/v1."),
        (" http://a/v1", "Write http://a/v1."),
        ("'http://a/v1'", "Write http://a/v1."),
        ("\u201chttps://a/v1\u201d", "Write https://a/v1."),
        ("<http://a/v1>", "Write http://a/v1."),
        ("http://a/v1 ", "Write http://a/v1."),
        ("http:/a/v1", "Write http://a/v1."),
        ("http://a b/v1", "like http://"),
        ("ftp://a/v1", "like http://"),
        ("https://", "like http://"),
    ],
)
def test_an_address_without_http_or_in_quotes_is_named_with_its_line(
    tmp_path: Path, kind: str, url: str, hint: str
) -> None:
    entry = f'[[workers]]\nid = "a"\nkind = "{kind}"\nmodel = "openai/m"\n'
    for value in (json.dumps(url), json.dumps(["http://b/v1", url])):
        if kind == "cloud" and value.startswith("["):
            continue
        with pytest.raises(ConfigError, match=r"config.toml, line 5\).*http://") as caught:
            load_settings(write(tmp_path, f"{entry}base_url = {value}\n"), {})
        assert hint in caught.value.hint


def test_a_server_without_an_address_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="begins with http://"):
        load_settings(write(tmp_path, f'{SERVER}base_url = ""\n'), {})


def test_a_file_that_may_never_end_or_is_not_there_is_refused(tmp_path: Path) -> None:
    """What it holds back (offline, ceilings) isn't known: so it isn't taken for an empty one."""
    pipe, link, huge = (tmp_path / name for name in ("pipe", "link", "huge"))
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "unmounted")
    huge.touch()
    os.truncate(huge, 10**12)
    for file, why in ((pipe, "ordinary"), (link, "isn't there"), (huge, "too large")):
        with pytest.raises(ConfigError, match=f"(?i){why}"):
            load_settings(file, {})
    (tmp_path / "config").mkdir()
    pipe.rename(tmp_path / "config" / "config.toml")
    environ = {"BATON_HOME": str(tmp_path), "A": "1"}
    assert keyless_environ(environ) == environ


def test_baton_home_puts_everything_under_one_folder(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    for path in (paths.config_file, paths.database, paths.logs, paths.cache):
        assert path.is_relative_to(tmp_path)


def test_a_home_of_a_user_who_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match="BATON_HOME"):
        find_paths({"BATON_HOME": "~nobody-of-that-name/x"})


MINE = """\
# mine
mode = "local"   # for now

[local]
threads = 2 # of four

[[workers]]
id = "gpt"          # the dear one
kind = "cloud"
model = "openai/gpt-5-mini"
"""


def test_a_change_leaves_everything_else_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, MINE)
    change(file, {"budget": {"day": "2", "policy": "once"}, "local": {"threads": 3}})
    text = file.read_text()
    assert text.startswith(MINE.replace("threads = 2 ", "threads = 3 "))
    settings = load_settings(file, {})
    assert (settings.budget.day, settings.budget.policy.value) == ("2", "once")
    change(file, {"budget": {"day": "3"}})
    assert file.read_text() == text.replace('day = "2"', 'day = "3"')
    change(file, {"budget": {"day": None, "policy": None, "month": None}})
    assert load_settings(file, {}).budget == Settings().budget


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# nothing yet\n",
        'mode = "local"',
        'budget.month = "9"\n',
        'budget = { month = "9" }\nmode = "mini"\n',
        '[budget]\n# month = "9"\n[screen]\nmouse = false\n',
        '[screen]\nmouse = false\r\n[budget]\r\nday = "1"\r\n',
        '[[workers]]\nid = "a"\nmodel = "b.gguf"\n',
    ],
)
def test_a_ceiling_can_be_set_however_the_file_is_written(tmp_path: Path, before: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(before.encode())
    old = load_settings(file, {})
    change(file, {"budget": {"day": "2"}})
    new = load_settings(file, {})
    assert new.budget.day == "2"
    assert ("\r\n" in before) == (b"\r\n" in file.read_bytes())
    assert new.budget.month == old.budget.month
    assert (new.mode, new.screen, new.workers) == (old.mode, old.screen, old.workers)


def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "config.toml"
    change(file, {"offline": True})
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o640)
    change(file, {"offline": False})
    assert file.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in file.parent.iterdir()] == ["config.toml"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    real = write(tmp_path, "offline = true\n")
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    change(link, {"offline": False})
    assert link.is_symlink()
    assert real.read_text() == "offline = false\n"


@pytest.mark.parametrize(
    "changes",
    [{"budgit": {"day": "2"}}, {"budget": {"day": "lots"}}, {"mode": "fast"}, {"local": 3}],
)
def test_a_wrong_change_is_refused_and_the_file_stays(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = write(tmp_path, MINE)
    with pytest.raises(ConfigError):
        change(file, changes)
    assert file.read_text() == MINE
    assert [item.name for item in tmp_path.iterdir()] == ["config.toml"]


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    """As when two models arrive at the same moment and each takes its roles."""
    file, begin = write(tmp_path, MINE), Barrier(len(KINDS))

    def prefer(kind: str) -> None:
        begin.wait()
        change(file, {"prefer": {kind: "small"}})

    with ThreadPoolExecutor(len(KINDS)) as pool:
        list(pool.map(prefer, KINDS))
    assert load_settings(file, {}).prefer == dict.fromkeys(KINDS, "small")
    assert [item.name for item in tmp_path.iterdir()] == ["config.toml"]


def test_a_broken_file_is_not_changed(tmp_path: Path) -> None:
    file = write(tmp_path, "mode = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        change(file, {"offline": True})
    assert file.read_text() == "mode = "
