"""The table of models: what stands in it, what can be done, and what comes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.catalogue_types import ModelRole
from baton.core.errors import ModelFileError
from baton.core.messages import Chunk, Request, Text
from baton.download.progress import Phase, Progress
from baton.history import Store
from baton.models.model_download import ModelDownload
from baton.models.model_types import ExternalModel, LibraryModel, ModelState
from baton.tui import model_table
from baton.tui.background_downloads import ActiveDownload, Downloads, downloads_text
from baton.tui.screens.models_screen import ModelsScreen
from support.app_library import (
    CODER,
    GATED,
    GB,
    HEADER,
    HUGE,
    SCOUT,
    TALKER,
    Shop,
    contents,
    shop_in,
    shopping,
)
from support.app_session import GPT, Stage, remote_script, staged


def say(request: Request) -> Iterable[Chunk]:
    yield Text("Something or other, at some length.")


async def to_models(stage: Stage) -> ModelsScreen:
    await stage.press("ctrl+l")
    await stage.until(lambda: isinstance(stage.app.screen, ModelsScreen))
    screen = stage.app.screen
    assert isinstance(screen, ModelsScreen)
    if stage.services.library is not None:
        await stage.until(lambda: screen._data.verdicts)
    await stage.pilot.pause()
    return screen


async def point_at(stage: Stage, key: str) -> None:
    screen = stage.app.screen
    assert isinstance(screen, ModelsScreen)
    await stage.until(lambda: key in screen._rows)
    screen._point_at(key)
    await stage.pilot.pause()


async def confirm(stage: Stage, heading: str) -> None:
    await stage.until(lambda: type(stage.app.screen).__name__ == "ConfirmScreen")
    await stage.pilot.pause()
    assert heading in stage.see()
    await stage.press("right", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, ModelsScreen))


def line_of(stage: Stage, name: str) -> str:
    return next((line for line in stage.see().splitlines() if line.strip().startswith(name)), "")


def flat(stage: Stage) -> str:
    """Return what is on the screen as one line, however it is broken."""
    return " ".join(stage.see().split())


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return shop_in(tmp_path)


# What is shown


@pytest.mark.sampled
@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_the_table(shop: Shop, tmp_path: Path, size: tuple[int, int]) -> None:
    shop.put(CODER)
    async with shopping(shop, tmp_path, say, cloud=remote_script(), size=size) as stage:
        await stage.ask("hello")
        await to_models(stage)
        assert "name" in stage.see().splitlines()[2]
        assert "answers now" in line_of(stage, "SmolLM2 135M")
        assert "now" in line_of(stage, "SmolLM2 135M").split()[-1], "it was used a moment ago"
        assert "cloud" in line_of(stage, "gpt-5-mini")
        assert "4.7 GB" in line_of(stage, "Coder 7B")
        assert "recommended" in line_of(stage, "Talker 9B")
        assert "fits" in line_of(stage, "Gated 4B")
        assert "2 models" in stage.see().splitlines()[-1]
        assert ("84.0 GB free" in stage.see().splitlines()[-1]) == (size[0] > 100)
        assert "Huge 70B" not in stage.see(), "what won't fit is not in the way"
        await stage.press("a")
        await stage.until(lambda: "won't fit" in line_of(stage, "Huge 70B"))
        await point_at(stage, "catalogue/huge-70b")
        await stage.until(lambda: "It needs 46.0 GB" in stage.see())
        assert "A smaller one fits." in stage.see()


async def test_how_fast_others_may_be_is_told_by_the_starter(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path) as stage:
        stage.chat.onboarding.starter_speed = 110.0
        await to_models(stage)
        assert "~2" in line_of(stage, "Talker 9B").split()
        await stage.press("a")
        await stage.until(lambda: "<1" in line_of(stage, "Huge 70B").split())
        await point_at(stage, "catalogue/talker-9b")
        await stage.until(lambda: "About 2 tokens/s, by how fast the starter" in flat(stage))


async def test_without_a_library_there_are_the_workers(tmp_path: Path) -> None:
    async with staged(tmp_path, say, say, cloud=remote_script(), card=GPT) as stage:
        await to_models(stage)
        seen = stage.see()
        assert "Qwen 4B" in seen
        assert "More for this machine" not in seen
        await stage.press("a", "d", "v", "p", "r")
        assert isinstance(stage.app.screen, ModelsScreen)


async def test_names_from_outside_move_no_cursor(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, name="\x1b[2J\u202eEvil\n\nmodel", paused=True, here=False)
    shop.put(CODER, wrong="\x1b]0;title\x07", licence="\x1b[31mred")
    path = tmp_path / "\x1b[2Jx.gguf"
    shop.model_store.others = [ExternalModel("\x9b2Jname", path, GB, "\x1b[1mLM")]
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        for key in ("talker-9b", "coder-7b", str(path)):
            await point_at(stage, key)
            assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(stage.see())
        assert "\ufffd[2J\ufffdEvil model" in stage.see()


async def test_a_table_follows_the_window(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        for size in ((140, 40), (40, 12), (80, 24)):
            await stage.pilot.resize_terminal(*size)
            await stage.until(lambda size=size: stage.app.screen.size == size)  # type: ignore[misc]
            await stage.until(lambda: "SmolLM2" in stage.see())
            await stage.until(
                lambda size=size: all(len(line) <= size[0] for line in stage.see().splitlines())  # type: ignore[misc]
            )


# What is done with it


async def test_enter_downloads_and_the_model_takes_over(shop: Shop, tmp_path: Path) -> None:
    shop.model_source.hold()
    async with shopping(shop, tmp_path, say) as stage:
        await to_models(stage)
        await point_at(stage, "catalogue/talker-9b")
        await stage.until(lambda: "Enter downloads it: 5.7 GB, Apache-2.0." in stage.see())
        await stage.press("enter")
        await stage.until(lambda: "downloading 40 %" in line_of(stage, "Talker 9B"))
        await stage.until(lambda: "█" in stage.see())
        shop.model_source.going.set()
        await stage.until(lambda: "answers now" in line_of(stage, "Talker 9B"))
        await stage.until(lambda: "█" not in stage.see())
        await stage.press("escape")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ChatScreen")
        assert stage.chat.context.worker == "talker-9b"
        await stage.until(lambda: "Talker 9B is here and answers from now on." in stage.see())


async def test_the_cursor_stays_on_what_is_fetched_and_removed(shop: Shop, tmp_path: Path) -> None:
    shop.model_source.hold()
    async with shopping(shop, tmp_path) as stage:
        screen = await to_models(stage)
        await point_at(stage, "catalogue/coder-7b")
        await stage.press("enter")
        await stage.until(lambda: "downloading" in line_of(stage, "Coder 7B"))
        await stage.until(lambda: screen._row is not None and screen._row.key == "coder-7b")
        await stage.press("d")
        await confirm(stage, "Remove Coder 7B?")
        await stage.until(
            lambda: screen._row is not None and screen._row.key == "catalogue/coder-7b"
        )


async def test_why_it_did_not_come_is_said_in_the_table(shop: Shop, tmp_path: Path) -> None:
    shop.model_source.errors["talker-9b"] = ModelFileError(
        "It is at odds with its hash.", "Use another source."
    )
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await point_at(stage, "catalogue/talker-9b")
        await stage.press("enter")
        await stage.until(lambda: "It is at odds with its hash. Use another source." in flat(stage))
        shop.model_source.errors.clear()
        await stage.press("enter")
        await stage.until(lambda: "is here and answers from now on." in stage.see())
        await stage.until(lambda: "at odds" not in stage.see())


@pytest.mark.sampled
@pytest.mark.parametrize("key", ["f1", "ctrl+c"])
async def test_what_works_everywhere_works_here(shop: Shop, tmp_path: Path, key: str) -> None:
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await stage.press(key)
        if key == "ctrl+c":
            await stage.until(lambda: "Ctrl+C again quits" in stage.see())
        else:
            await stage.until(lambda: "Keys and commands" in stage.see())
            await stage.press("f1", "escape")
            await stage.until(lambda: isinstance(stage.app.screen, ModelsScreen))


async def test_a_licence_that_is_not_free_is_agreed_to_first(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await point_at(stage, "catalogue/gated-4b")
        await stage.until(lambda: "once you have agreed to its licence (gemma)" in stage.see())
        await stage.press("enter")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ConfirmScreen")
        assert "Gated 4B comes under the licence gemma." in stage.see()
        assert "hf.co/acme/Gated-4B" in stage.see()
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, ModelsScreen))
        assert shop.model_source.begun == [], "the cursor is on leaving it"
        await stage.press("enter")
        await confirm(stage, "Agree to its licence?")
        await stage.until(lambda: shop.joined == ["gated-4b"])


async def test_what_does_not_fit_must_be_insisted_on(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await stage.press("a")
        await point_at(stage, "catalogue/huge-70b")
        await stage.press("enter")
        await confirm(stage, "It won't fit")
        await stage.until(lambda: shop.joined == ["huge-70b"])
        assert shop.get("huge-70b").record.forced


async def test_pause_and_go_on(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, here=False)
    shop.model_source.hold()
    async with shopping(shop, tmp_path) as stage:
        await stage.until(lambda: "Going on with the download of Talker 9B" in stage.see())
        await to_models(stage)
        await point_at(stage, "talker-9b")
        await stage.until(lambda: "downloading" in line_of(stage, "Talker 9B"))
        await stage.press("p")
        await stage.until(lambda: "paused" in line_of(stage, "Talker 9B"))
        assert shop.model_source.stopped == ["talker-9b"]
        assert shop.get("talker-9b").record.paused
        shop.model_source.going.set()
        await stage.press("p")
        await stage.until(lambda: shop.joined == ["talker-9b"])
        assert not shop.get("talker-9b").record.paused


async def test_removing_asks_and_says_what_was_freed(shop: Shop, tmp_path: Path) -> None:
    held = shop.put(TALKER)
    async with shopping(shop, tmp_path, say) as stage:
        stage.services.join(held)
        stage.chat.context.choose_worker("talker-9b")
        screen = await to_models(stage)
        await point_at(stage, "talker-9b")
        await stage.press("d")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ConfirmScreen")
        assert f"{len(contents('talker-9b'))} B are freed." in stage.see()
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen is screen)
        assert held.path.exists(), "the cursor is on leaving it"
        await stage.press("d")
        await confirm(stage, "Remove Talker 9B?")
        await stage.until(lambda: "removed;" in stage.see())
        assert not held.path.exists()
        assert stage.chat.context.worker == "small", "another worker answers then"
        await stage.press("escape")
        await stage.ask("hello")
        assert stage.chat.transcript.turns[-1].worker == "small"


async def test_removing_stops_a_download(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, here=False)
    shop.model_source.hold()
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await point_at(stage, "talker-9b")
        await stage.until(lambda: shop.model_source.begun)
        await stage.press("delete")
        await confirm(stage, "Remove Talker 9B?")
        await stage.until(lambda: not shop.library.models())
        assert shop.model_source.stopped == ["talker-9b"]
        assert stage.chat.downloads.queue is not None
        assert not stage.chat.downloads.queue.coming


async def test_a_role_can_be_given_to_another(shop: Shop, tmp_path: Path) -> None:
    held = shop.put(CODER)
    async with shopping(shop, tmp_path, say) as stage:
        stage.services.join(held)
        await to_models(stage)
        await point_at(stage, "coder-7b")
        await stage.press("r")
        await stage.until(lambda: type(stage.app.screen).__name__ == "RoleScreen")
        assert "now: small" in stage.see()
        await stage.press("right", "right", "enter")
        await stage.until(lambda: shop.conductor == "coder-7b")
        await stage.until(lambda: "conductor" in line_of(stage, "Coder 7B"))
        await stage.press("r")
        await stage.until(lambda: type(stage.app.screen).__name__ == "RoleScreen")
        await stage.press("right", "enter")
        await stage.until(lambda: "answers now" in line_of(stage, "Coder 7B"))
        assert stage.chat.context.worker == "coder-7b"


@pytest.mark.sampled
@pytest.mark.parametrize("right", [True, False])
async def test_verifying(shop: Shop, tmp_path: Path, right: bool) -> None:
    held = shop.put(TALKER)
    if not right:
        shop.model_source.wrong.add(held.path.name)
    async with shopping(shop, tmp_path) as stage:
        stage.services.join(held)
        await to_models(stage)
        await point_at(stage, "talker-9b")
        await stage.press("v")
        wanted = ModelState.HERE if right else ModelState.BROKEN
        word = "is as it was when it came" if right else "is not used any more"
        await stage.press("escape")
        await stage.until(lambda: word in stage.see())
        assert shop.get("talker-9b").state is wanted


async def test_workers_that_share_a_model_take_its_memory_once(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path, say, say, size=(140, 40)) as stage:
        for name in ("small", "large"):
            worker = stage.services.orchestra.worker(name)
            worker.resident, worker.process = 400_000_000, 4711  # type: ignore[attr-defined]
        await to_models(stage)
        assert "400.0 MB" in line_of(stage, "SmolLM2 135M")
        assert "400.0 MB" in line_of(stage, "Qwen 4B")
        assert "400.0 MB in memory" in stage.see().splitlines()[-1]


async def test_an_adapter_is_told_of(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path, say) as stage:
        worker = stage.services.orchestra.worker("small")
        worker.adapter = Path("/loras/pirate\x1b.gguf")  # type: ignore[attr-defined]
        await to_models(stage)
        await stage.until(lambda: "With the adapter /loras/pirate\ufffd.gguf" in stage.see())


async def test_a_broken_model_is_fetched_anew(shop: Shop, tmp_path: Path) -> None:
    held = shop.put(TALKER, wrong="its contents aren't what they were when it came")
    async with shopping(shop, tmp_path, say) as stage:
        stage.services.join(held)
        await to_models(stage)
        assert "broken" in line_of(stage, "Talker 9B")
        await point_at(stage, "talker-9b")
        await stage.until(lambda: "Enter fetches it again." in stage.see())
        assert "Not used: its contents aren't what they were" in stage.see()
        await stage.press("enter")
        await stage.until(lambda: shop.joined == ["talker-9b", "talker-9b"])
        assert shop.get("talker-9b").state is ModelState.HERE


async def test_what_cannot_be_done_is_said_in_the_table(shop: Shop, tmp_path: Path) -> None:
    shop.library.offline = True
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        await point_at(stage, "catalogue/talker-9b")
        await stage.press("enter")
        await stage.until(lambda: "Baton is offline, so nothing was fetched." in stage.see())
        await stage.pilot.pause(0.7)
        assert "Baton is offline" in stage.see(), "it stays until the cursor moves"
        await stage.press("up")
        await stage.until(lambda: "Baton is offline" not in stage.see())
        assert shop.model_source.begun == []


async def test_another_program_s_model_is_used_where_it_lies(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "foreign.gguf"
    path.write_bytes(b"GGUF foreign")
    shop.model_store.others = [ExternalModel("Foreign 4B", path, 12, "Ollama")]
    monkeypatch.setattr(
        shop.model_store, "read_header", lambda path: HEADER
    )  # it is much too short
    async with shopping(shop, tmp_path) as stage:
        await to_models(stage)
        assert "Ollama" in line_of(stage, "Foreign 4B")
        await point_at(stage, str(path))
        await stage.press("enter")
        await stage.until(lambda: shop.joined == ["foreign"])
        assert shop.get("foreign").state is ModelState.LINKED
        assert shop.get("foreign").path == path
        await point_at(stage, "foreign")
        await stage.press("d")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ConfirmScreen")
        assert "stays where it is" in stage.see()
        await stage.press("right", "enter")
        await stage.until(lambda: not shop.library.models())
        assert path.exists()


# What comes while the person does something else


async def test_what_goes_wrong_is_said_in_the_conversation(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, here=False)
    shop.model_source.errors["talker-9b"] = ModelFileError(
        "The disk is full; what came of Talker 9B is kept.", "Free 3 GB, then go on with it."
    )
    async with shopping(shop, tmp_path) as stage:
        await stage.until(lambda: "The disk is full" in stage.see())
        assert "Free 3 GB" in " ".join(stage.see().split())
        assert stage.chat.footer.beside == ""
        await stage.ask("hello")


async def test_paused_ones_wait_for_the_person(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, here=False, paused=True)
    async with shopping(shop, tmp_path) as stage:
        await stage.until(lambda: "The download of Talker 9B is paused" in flat(stage))
        assert shop.model_source.begun == []


async def test_offline_they_wait_and_go_on_afterwards(shop: Shop, tmp_path: Path) -> None:
    shop.put(TALKER, here=False)
    shop.library.offline = True
    async with shopping(shop, tmp_path, terms={"offline": True}) as stage:
        await stage.until(lambda: "Baton is offline, so Talker 9B" in stage.see())
        assert shop.model_source.begun == []
        shop.model_source.hold()
        await stage.send("/offline off")
        await stage.until(lambda: shop.model_source.begun == ["talker-9b"])
        await stage.send("/offline on")
        await stage.until(lambda: shop.model_source.stopped == ["talker-9b"])
        assert not shop.get("talker-9b").record.paused


async def test_leaving_stops_downloads_at_once_and_loses_nothing(
    shop: Shop, tmp_path: Path
) -> None:
    for one in (TALKER, SCOUT, CODER, GATED):
        shop.put(one, here=False)
    shop.model_source.hold()
    async with shopping(shop, tmp_path) as stage:
        await stage.until(lambda: len(shop.model_source.begun) == 3)
        await stage.press("ctrl+q")
        await stage.until(lambda: len(shop.model_source.stopped) == 3)
    assert {held.state for held in shop.library.models()} == {ModelState.COMING}
    assert not any(held.record.paused for held in shop.library.models())


async def test_pull_takes_any_name(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path) as stage:
        await stage.send("/pull scout-2b")
        await stage.until(lambda: shop.joined == ["scout-2b"])
        await stage.send("/pull scout-2b")
        await stage.until(lambda: "Scout 2B is here already." in stage.see())
        await stage.send("/pull")
        await stage.until(lambda: "Which model?" in stage.see())
        await stage.send("/pull scuot-2b")
        await stage.until(lambda: "Did you mean 'scout-2b'?" in stage.see())


async def test_a_worker_that_was_chosen_stays(shop: Shop, tmp_path: Path) -> None:
    async with shopping(shop, tmp_path, say, say) as stage:
        await stage.send("/model large")
        await stage.until(lambda: stage.chat.context.worker == "large")
        await stage.send("/pull talker-9b")
        await stage.until(lambda: shop.joined == ["talker-9b"])
        await stage.pilot.pause()
        assert stage.chat.context.worker == "large"
        assert stage.services.orchestra.default == "talker-9b"


async def test_whoever_reads_further_up_stays_there(shop: Shop, tmp_path: Path) -> None:
    def long(request: Request) -> Iterable[Chunk]:
        yield Text("\n\n".join(f"line {number}" for number in range(80)))

    store = Store.open(None)
    async with shopping(shop, tmp_path, long, store=store) as stage:
        await stage.ask("hello")
        await stage.press("escape", "g")
        await stage.until(lambda: stage.chat.transcript.scroll_y == 0)
        assert stage.chat.downloads.queue is not None
        stage.chat.downloads.queue.fetch(await ModelDownload(shop.library).request("scout-2b"))
        await stage.until(lambda: shop.joined == ["scout-2b"])
        await stage.pilot.pause(0.1)
        assert stage.chat.transcript.scroll_y == 0
    await store.aclose()


# The rules beneath


class Ear:
    """Hears how downloads go."""

    def __init__(self) -> None:
        self.here: list[str] = []
        self.all_here = asyncio.Event()

    def downloads_changed(self) -> None:
        """Nothing is drawn here."""

    async def arrived(self, held: LibraryModel) -> None:
        self.here.append(held.id)
        if len(self.here) == 4:
            self.all_here.set()

    async def verified(self, held: LibraryModel) -> None:
        """Nothing is verified here."""

    async def failed(self, name: str, error: BaseException) -> None:
        raise error

    def broke(self, error: BaseException) -> None:
        raise error


async def test_no_more_than_three_come_at_once(shop: Shop) -> None:
    ear = Ear()
    coming = Downloads(shop.library, ear)
    shop.model_source.hold()
    models_there = [shop.put(one, here=False) for one in (TALKER, SCOUT, CODER, GATED)]
    for held in models_there:
        coming.fetch(held)
        coming.fetch(held)
    await asyncio.sleep(0.05)
    assert len(shop.model_source.begun) == 3
    assert len(coming.coming) == 4
    assert downloads_text(coming.coming).startswith("downloading 4 models ")
    shop.model_source.going.set()
    async with asyncio.timeout(10):
        await ear.all_here.wait()
    assert not coming.coming
    await coming.close()
    coming.fetch(shop.put(HUGE, here=False))
    assert not coming.coming, "nothing begins any more"


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            Progress(Phase.DOWNLOADING, 4 * GB, 10 * GB, 12e6, 300.0),
            "downloading m 40 %, 12 MB/s, 5 min left",
        ),
        (Progress(Phase.DOWNLOADING, 0, 0, 500.0), "downloading m"),
        (
            Progress(Phase.DOWNLOADING, 999, 1000, 1.25e9, 0.2),
            "downloading m 99 %, 1.2 GB/s, 1 s left",
        ),
        (
            Progress(Phase.DOWNLOADING, 1, 100, 2500.0, 7300.0),
            "downloading m 1 %, 2.5 kB/s, 2 h 2 min left",
        ),
        (
            Progress(Phase.DOWNLOADING, 1, 100, 2500.0, 1e6),
            "downloading m 1 %, 2.5 kB/s, 11 days left",
        ),
        (Progress(Phase.WAITING, 10, 100, 5e6, 3.0), "waiting for m 10 %"),
        (Progress(Phase.VERIFYING, 50, 100), "verifying m 50 %"),
    ],
)
def test_progress_in_words(progress: Progress, words: str) -> None:
    assert downloads_text({"m": ActiveDownload("m", "M", "m", progress)}) == words


@pytest.mark.parametrize("width", [0, 30, 74, 76, 109, 110, 136])
def test_columns_stay_within_the_width(width: int) -> None:
    columns = model_table.Columns(width)
    row = model_table.ModelRow(
        "k",
        "名前" * 30,
        123_456_789_012,
        tuple(ModelRole),
        memory=98_765_432_109,
        speed=123.4,
        used=5.0,
    )
    line = columns.line(row, 1e9)
    assert line.cell_length == columns.heading().cell_length
    assert line.cell_length <= max(width, 67)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "now"), (59, "now"), (60, "1min"), (7200, "2h"), (86_400 * 9, "9d"), (4e7, "1y")],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert model_table.age_text(1e9 - seconds, 1e9) == words
