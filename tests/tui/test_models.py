"""The table of models: what stands in it, what can be done, and what comes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from baton.compose.model_inventory import ModelInventory, stored_row
from baton.core.catalogue_types import UNKNOWN_SOURCE, ModelRole
from baton.core.errors import ModelFileError
from baton.core.messages import Card, Chunk, Request, Text
from baton.download.messages import Phase, Progress
from baton.history import Store
from baton.models.model_download import ModelDownload
from baton.models.ports import ExternalModel, LibraryModel, ModelState
from baton.presentation.model_rows import ModelRow
from baton.tui import model_table
from baton.tui.chat.downloads import (
    ActiveDownload,
    DownloadController,
    Downloads,
    downloads_text,
)
from baton.tui.screens import models_screen
from baton.tui.screens.models_screen import ModelsScreen
from support.app_library import (
    CODER,
    GATED,
    GB,
    HEADER,
    HUGE,
    SCOUT,
    TALKER,
    LibrarySetup,
    contents,
    new_library_setup,
    open_app_with_library,
)
from support.app_session import CARD, GPT, AppSession, open_app, remote_script, saying

SAY = saying("Something or other, at some length.")


async def to_models(session: AppSession) -> ModelsScreen:
    await session.press("ctrl+l")
    await session.wait_until(lambda: isinstance(session.app.screen, ModelsScreen))
    screen = session.app.screen
    assert isinstance(screen, ModelsScreen)
    if session.services.library.entries():
        await session.wait_until(lambda: screen._data.verdicts)
    await session.settled()
    return screen


async def point_at(session: AppSession, key: str) -> None:
    screen = session.app.screen
    assert isinstance(screen, ModelsScreen)
    await session.wait_until(lambda: key in screen._rows)
    screen._point_at(key)
    await session.settled()


async def confirm(session: AppSession, heading: str) -> None:
    await session.wait_until(lambda: session.screen_name == "ConfirmScreen")
    await session.settled()
    assert heading in session.screen_text()
    await session.press("right", "enter")
    await session.wait_until(lambda: isinstance(session.app.screen, ModelsScreen))


def line_of(session: AppSession, name: str) -> str:
    return next(
        (line for line in session.screen_text().splitlines() if line.strip().startswith(name)), ""
    )


@pytest.fixture
def library_setup(tmp_path: Path) -> LibrarySetup:
    return new_library_setup(tmp_path)


# What is shown


@pytest.mark.sampled
@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_the_table(
    library_setup: LibrarySetup, tmp_path: Path, size: tuple[int, int]
) -> None:
    library_setup.put(CODER)
    async with open_app_with_library(
        library_setup, tmp_path, SAY, cloud=remote_script(), size=size
    ) as session:
        await session.ask("hello")
        await to_models(session)
        assert "name" in session.screen_text().splitlines()[2]
        assert "answers now" in line_of(session, "SmolLM2 135M")
        assert "now" in line_of(session, "SmolLM2 135M").split()[-1], "it was used a moment ago"
        assert "cloud" in line_of(session, "gpt-5-mini")
        assert "4.7 GB" in line_of(session, "Coder 7B")
        assert "recommended" in line_of(session, "Talker 9B")
        assert "fits" in line_of(session, "Gated 4B")
        assert "2 models" in session.screen_text().splitlines()[-1]
        assert ("84.0 GB free" in session.screen_text().splitlines()[-1]) == (size[0] > 100)
        assert "Huge 70B" not in session.screen_text(), "what won't fit is not in the way"
        await session.press("a")
        await session.wait_until(lambda: "won't fit" in line_of(session, "Huge 70B"))
        await point_at(session, "catalogue/huge-70b")
        await session.wait_until(lambda: "It needs 46.0 GB" in session.screen_text())
        assert "A smaller one fits." in session.screen_text()


async def test_how_fast_others_may_be_is_estimated_from_the_starter(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        session.chat.onboarding.starter_speed = 110.0
        await to_models(session)
        assert "~2" in line_of(session, "Talker 9B").split()
        await session.press("a")
        await session.wait_until(lambda: "<1" in line_of(session, "Huge 70B").split())
        await point_at(session, "catalogue/talker-9b")
        await session.wait_until(
            lambda: "About 2 tokens/s, by how fast the starter" in session.screen_line()
        )


async def test_without_models_there_are_the_workers(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, SAY, cloud=remote_script(), card=GPT) as session:
        await to_models(session)
        seen = session.screen_text()
        assert "Qwen 4B" in seen
        assert "More for this machine" not in seen
        await session.press("a", "d", "v", "p")
        assert isinstance(session.app.screen, ModelsScreen)


async def test_names_from_outside_move_no_cursor(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.put(TALKER, name="\x1b[2J\u202eEvil\n\nmodel", paused=True, here=False)
    library_setup.put(CODER, wrong="\x1b]0;title\x07", licence="\x1b[31mred")
    path = tmp_path / "\x1b[2Jx.gguf"
    library_setup.model_store.others = [ExternalModel("\x9b2Jname", path, GB, "\x1b[1mLM")]
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        for key in ("talker-9b", "coder-7b", str(path)):
            await point_at(session, key)
            assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(session.screen_text())
        assert "\ufffd[2J\ufffdEvil model" in session.screen_text()


async def test_a_table_follows_the_window(library_setup: LibrarySetup, tmp_path: Path) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        for size in ((140, 40), (40, 12), (80, 24)):
            await session.pilot.resize_terminal(*size)
            await session.wait_until(lambda size=size: session.app.screen.size == size)  # type: ignore[misc]
            await session.wait_until(lambda: "SmolLM2" in session.screen_text())
            await session.wait_until(
                lambda size=size: all(
                    len(line) <= size[0] for line in session.screen_text().splitlines()
                )  # type: ignore[misc]
            )


# What is done with it


async def test_enter_downloads_and_the_model_takes_over(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path, SAY) as session:
        await to_models(session)
        await point_at(session, "catalogue/talker-9b")
        await session.wait_until(
            lambda: "Enter downloads it: 5.7 GB, Apache-2.0." in session.screen_text()
        )
        await session.press("enter")
        await session.wait_until(lambda: "downloading 40 %" in line_of(session, "Talker 9B"))
        await session.wait_until(lambda: "█" in session.screen_text())
        library_setup.model_source.going.set()
        await session.wait_until(lambda: "answers now" in line_of(session, "Talker 9B"))
        await session.wait_until(lambda: "█" not in session.screen_text())
        await session.press("escape")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")
        assert session.chat.context.worker == "talker-9b"
        await session.wait_until(
            lambda: "Talker 9B is here and answers from now on." in session.screen_text()
        )


async def test_the_cursor_stays_on_what_is_fetched_and_removed(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path) as session:
        screen = await to_models(session)
        await point_at(session, "catalogue/coder-7b")
        await session.press("enter")
        await session.wait_until(lambda: "downloading" in line_of(session, "Coder 7B"))
        await session.wait_until(
            lambda: screen._row is not None and model_table.row_key(screen._row) == "coder-7b"
        )
        await session.press("d")
        await confirm(session, "Remove Coder 7B?")
        await session.wait_until(
            lambda: (
                screen._row is not None and model_table.row_key(screen._row) == "catalogue/coder-7b"
            )
        )


async def test_why_it_did_not_come_is_said_in_the_table(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.model_source.errors["talker-9b"] = ModelFileError(
        "It is at odds with its hash.", "Use another source."
    )
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await point_at(session, "catalogue/talker-9b")
        await session.press("enter")
        await session.wait_until(
            lambda: "It is at odds with its hash. Use another source." in session.screen_line()
        )
        library_setup.model_source.errors.clear()
        await session.press("enter")
        await session.wait_until(
            lambda: "is here and answers from now on." in session.screen_text()
        )
        await session.wait_until(lambda: "at odds" not in session.screen_text())


@pytest.mark.sampled
@pytest.mark.parametrize("key", ["f1", "ctrl+c"])
async def test_what_works_everywhere_works_here(
    library_setup: LibrarySetup, tmp_path: Path, key: str
) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await session.press(key)
        if key == "ctrl+c":
            await session.wait_until(lambda: "Ctrl+C again quits" in session.screen_text())
        else:
            await session.wait_until(lambda: "Keys and commands" in session.screen_text())
            await session.press("f1", "escape")
            await session.wait_until(lambda: isinstance(session.app.screen, ModelsScreen))


async def test_a_licence_that_is_not_free_is_agreed_to_first(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await point_at(session, "catalogue/gated-4b")
        await session.wait_until(
            lambda: "once you have agreed to its licence (gemma)" in session.screen_text()
        )
        await session.press("enter")
        await session.wait_until(lambda: session.screen_name == "ConfirmScreen")
        assert "Gated 4B comes under the licence gemma." in session.screen_text()
        assert "hf.co/acme/Gated-4B" in session.screen_text()
        await session.press("enter")
        await session.wait_until(lambda: isinstance(session.app.screen, ModelsScreen))
        assert library_setup.model_source.begun == [], "the cursor is on leaving it"
        await session.press("enter")
        await confirm(session, "Agree to its licence?")
        await session.wait_until(lambda: library_setup.joined == ["gated-4b"])


async def test_what_does_not_fit_must_be_insisted_on(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await session.press("a")
        await point_at(session, "catalogue/huge-70b")
        await session.press("enter")
        await confirm(session, "It won't fit")
        await session.wait_until(lambda: library_setup.joined == ["huge-70b"])
        assert library_setup.get("huge-70b").record.forced


async def test_pause_and_continue(library_setup: LibrarySetup, tmp_path: Path) -> None:
    library_setup.put(TALKER, here=False)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.wait_until(
            lambda: "Resuming the download of Talker 9B" in session.screen_text()
        )
        await to_models(session)
        await point_at(session, "talker-9b")
        await session.wait_until(lambda: "downloading" in line_of(session, "Talker 9B"))
        await session.press("p")
        await session.wait_until(lambda: "paused" in line_of(session, "Talker 9B"))
        assert library_setup.model_source.stopped == ["talker-9b"]
        assert library_setup.get("talker-9b").record.paused
        library_setup.model_source.going.set()
        await session.press("p")
        await session.wait_until(lambda: library_setup.joined == ["talker-9b"])
        assert not library_setup.get("talker-9b").record.paused


async def test_removing_asks_and_says_what_was_freed(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    held = library_setup.put(TALKER)
    async with open_app_with_library(library_setup, tmp_path, SAY) as session:
        session.services.add_model(held)
        session.chat.context.choose_worker("talker-9b")
        screen = await to_models(session)
        await point_at(session, "talker-9b")
        await session.press("d")
        await session.wait_until(lambda: session.screen_name == "ConfirmScreen")
        assert f"{len(contents('talker-9b'))} B are freed." in session.screen_text()
        await session.press("enter")
        await session.wait_until(lambda: session.app.screen is screen)
        assert held.path.exists(), "the cursor is on leaving it"
        await session.press("d")
        await confirm(session, "Remove Talker 9B?")
        await session.wait_until(lambda: "removed;" in session.screen_text())
        assert not held.path.exists()
        assert session.chat.context.worker == "small", "another worker answers then"
        await session.press("escape")
        await session.ask("hello")
        assert session.chat.transcript.turns[-1].worker == "small"


async def test_removing_stops_a_download(library_setup: LibrarySetup, tmp_path: Path) -> None:
    library_setup.put(TALKER, here=False)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await point_at(session, "talker-9b")
        await session.wait_until(lambda: library_setup.model_source.begun)
        await session.press("delete")
        await confirm(session, "Remove Talker 9B?")
        await session.wait_until(lambda: not library_setup.library.models())
        assert library_setup.model_source.stopped == ["talker-9b"]
        assert session.chat.downloads.queue is not None
        assert not session.chat.downloads.queue.coming


async def test_a_role_can_be_given_to_another(library_setup: LibrarySetup, tmp_path: Path) -> None:
    held = library_setup.put(CODER)
    async with open_app_with_library(library_setup, tmp_path, SAY) as session:
        session.services.add_model(held)
        await to_models(session)
        await point_at(session, "coder-7b")
        await session.press("r")
        await session.wait_until(lambda: session.screen_name == "RoleScreen")
        assert "now: small" in session.screen_text()
        await session.press("right", "right", "enter")
        await session.wait_until(lambda: library_setup.conductor == "coder-7b")
        await session.wait_until(lambda: "conductor" in line_of(session, "Coder 7B"))
        await session.press("r")
        await session.wait_until(lambda: session.screen_name == "RoleScreen")
        await session.press("right", "enter")
        await session.wait_until(lambda: "answers now" in line_of(session, "Coder 7B"))
        assert session.chat.context.worker == "coder-7b"


@pytest.mark.sampled
@pytest.mark.parametrize("right", [True, False])
async def test_verifying(library_setup: LibrarySetup, tmp_path: Path, right: bool) -> None:
    held = library_setup.put(TALKER)
    if not right:
        library_setup.model_source.wrong.add(held.path.name)
    async with open_app_with_library(library_setup, tmp_path) as session:
        session.services.add_model(held)
        await to_models(session)
        await point_at(session, "talker-9b")
        await session.press("v")
        wanted = ModelState.HERE if right else ModelState.BROKEN
        word = "is as it was when it came" if right else "is not used any more"
        await session.press("escape")
        await session.wait_until(lambda: word in session.screen_text())
        assert library_setup.get("talker-9b").state is wanted


async def test_workers_that_share_a_model_take_its_memory_once(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    async with open_app_with_library(library_setup, tmp_path, SAY, SAY, size=(140, 40)) as session:
        for name in ("small", "large"):
            worker = session.services.orchestra.worker(name)
            worker.resident, worker.process = 400_000_000, 4711  # type: ignore[attr-defined]
        await to_models(session)
        assert "400.0 MB" in line_of(session, "SmolLM2 135M")
        assert "400.0 MB" in line_of(session, "Qwen 4B")
        assert "400.0 MB in memory" in session.screen_text().splitlines()[-1]


async def test_an_adapter_is_shown(library_setup: LibrarySetup, tmp_path: Path) -> None:
    async with open_app_with_library(library_setup, tmp_path, SAY) as session:
        worker = session.services.orchestra.worker("small")
        worker.adapter = Path("/loras/pirate\x1b.gguf")  # type: ignore[attr-defined]
        await to_models(session)
        await session.wait_until(
            lambda: "With the adapter /loras/pirate\ufffd.gguf" in session.screen_text()
        )


async def test_a_broken_model_is_fetched_again(library_setup: LibrarySetup, tmp_path: Path) -> None:
    held = library_setup.put(TALKER, wrong="its contents aren't what they were when it came")
    async with open_app_with_library(library_setup, tmp_path, SAY) as session:
        session.services.add_model(held)
        await to_models(session)
        assert "broken" in line_of(session, "Talker 9B")
        await point_at(session, "talker-9b")
        await session.wait_until(lambda: "Enter fetches it again." in session.screen_text())
        assert "Its contents aren't what they were when it came." in session.screen_text()
        await session.press("enter")
        await session.wait_until(lambda: library_setup.joined == ["talker-9b", "talker-9b"])
        assert library_setup.get("talker-9b").state is ModelState.HERE


async def test_what_cannot_be_done_is_said_in_the_table(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.library.offline = True
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        await point_at(session, "catalogue/talker-9b")
        await session.press("enter")
        await session.wait_until(
            lambda: "Baton is offline, so nothing was fetched." in session.screen_text()
        )
        await session.pilot.pause(3 * models_screen.TICK_SECONDS)
        assert "Baton is offline" in session.screen_text(), "it stays until the cursor moves"
        await session.press("up")
        await session.wait_until(lambda: "Baton is offline" not in session.screen_text())
        assert library_setup.model_source.begun == []


async def test_another_program_s_model_is_used_where_it_is(
    library_setup: LibrarySetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "foreign.gguf"
    path.write_bytes(b"GGUF foreign")
    library_setup.model_store.others = [ExternalModel("Foreign 4B", path, 12, "Ollama")]
    monkeypatch.setattr(
        library_setup.model_store, "read_header", lambda path: HEADER
    )  # it is much too short
    async with open_app_with_library(library_setup, tmp_path) as session:
        await to_models(session)
        assert "Ollama" in line_of(session, "Foreign 4B")
        await point_at(session, str(path))
        await session.press("enter")
        await session.wait_until(lambda: library_setup.joined == ["foreign"])
        assert library_setup.get("foreign").state is ModelState.LINKED
        assert library_setup.get("foreign").path == path
        await point_at(session, "foreign")
        await session.press("d")
        await session.wait_until(lambda: session.screen_name == "ConfirmScreen")
        assert "stays where it is" in session.screen_text()
        await session.press("right", "enter")
        await session.wait_until(lambda: not library_setup.library.models())
        assert path.exists()


# What comes while the user does something else


async def test_what_goes_wrong_is_said_in_the_conversation(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.put(TALKER, here=False)
    library_setup.model_source.errors["talker-9b"] = ModelFileError(
        "The disk is full; what came of Talker 9B is kept.", "Free 3 GB, then go on with it."
    )
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.wait_until(lambda: "The disk is full" in session.screen_text())
        assert "Free 3 GB" in " ".join(session.screen_text().split())
        assert session.chat.footer.beside == ""
        await session.ask("hello")


async def test_paused_ones_wait_for_the_user(library_setup: LibrarySetup, tmp_path: Path) -> None:
    library_setup.put(TALKER, here=False, paused=True)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.wait_until(
            lambda: "The download of Talker 9B is paused" in session.screen_line()
        )
        assert library_setup.model_source.begun == []


async def test_offline_they_wait_and_continue_afterwards(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    library_setup.put(TALKER, here=False)
    library_setup.library.offline = True
    async with open_app_with_library(library_setup, tmp_path, terms={"offline": True}) as session:
        await session.wait_until(lambda: "Baton is offline, so Talker 9B" in session.screen_text())
        assert library_setup.model_source.begun == []
        library_setup.model_source.hold()
        await session.send("/offline off")
        await session.wait_until(lambda: library_setup.model_source.begun == ["talker-9b"])
        await session.send("/offline on")
        await session.wait_until(lambda: library_setup.model_source.stopped == ["talker-9b"])
        assert not library_setup.get("talker-9b").record.paused


async def test_leaving_stops_downloads_at_once_and_loses_nothing(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    for one in (TALKER, SCOUT, CODER, GATED):
        library_setup.put(one, here=False)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.wait_until(lambda: len(library_setup.model_source.begun) == 3)
        await session.press("ctrl+q")
        await session.wait_until(lambda: len(library_setup.model_source.stopped) == 3)
    assert {held.state for held in library_setup.library.models()} == {ModelState.COMING}
    assert not any(held.record.paused for held in library_setup.library.models())


async def test_pull_takes_any_name(library_setup: LibrarySetup, tmp_path: Path) -> None:
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.send("/pull scout-2b")
        await session.wait_until(lambda: library_setup.joined == ["scout-2b"])
        await session.send("/pull scout-2b")
        await session.wait_until(lambda: "Scout 2B is here already." in session.screen_text())
        await session.send("/pull")
        await session.wait_until(lambda: "Which model?" in session.screen_text())
        await session.send("/pull scuot-2b")
        await session.wait_until(lambda: "Did you mean 'scout-2b'?" in session.screen_text())


async def test_a_worker_that_was_chosen_stays(library_setup: LibrarySetup, tmp_path: Path) -> None:
    async with open_app_with_library(library_setup, tmp_path, SAY, SAY) as session:
        await session.send("/model large")
        await session.wait_until(lambda: session.chat.context.worker == "large")
        await session.send("/pull talker-9b")
        await session.wait_until(lambda: library_setup.joined == ["talker-9b"])
        await session.settled()
        assert session.chat.context.worker == "large"
        assert session.services.orchestra.default == "talker-9b"


async def test_a_view_that_is_scrolled_up_stays_there(
    library_setup: LibrarySetup, tmp_path: Path
) -> None:
    def long(request: Request) -> Iterable[Chunk]:
        yield Text("\n\n".join(f"line {number}" for number in range(80)))

    store = Store(None)
    async with open_app_with_library(library_setup, tmp_path, long, store=store) as session:
        await session.ask("hello")
        await session.press("escape", "g")
        await session.wait_until(lambda: session.chat.transcript.scroll_y == 0)
        assert session.chat.downloads.queue is not None
        session.chat.downloads.queue.fetch(
            await ModelDownload(library_setup.library).request("scout-2b")
        )
        await session.wait_until(lambda: library_setup.joined == ["scout-2b"])
        await session.settled()
        assert session.chat.transcript.scroll_y == 0
    await store.aclose()


# The rules beneath


class DownloadListener:
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


async def test_no_more_than_three_come_at_once(library_setup: LibrarySetup) -> None:
    listener = DownloadListener()
    coming = Downloads(library_setup.library, cast(DownloadController, listener))
    library_setup.model_source.hold()
    models_there = [library_setup.put(one, here=False) for one in (TALKER, SCOUT, CODER, GATED)]
    for held in models_there:
        coming.fetch(held)
        coming.fetch(held)
    await asyncio.sleep(0.05)
    assert len(library_setup.model_source.begun) == 3
    assert len(coming.coming) == 4
    assert downloads_text(coming.coming).startswith("downloading 4 models ")
    library_setup.model_source.going.set()
    async with asyncio.timeout(10):
        await listener.all_here.wait()
    assert not coming.coming
    await coming.close()
    coming.fetch(library_setup.put(HUGE, here=False))
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


def test_the_columns_of_figures_never_touch() -> None:
    columns = model_table.Columns(76)
    row = ModelRow("k", "n", "here", size=98_400_000, memory=394_500_000, speed=1234.0, used=5.0)
    assert "98.4 MB  394.5 MB  " in columns.line(row, 1e9).plain
    assert "memory  tok/s" in columns.heading().plain


def test_workers_of_one_name_are_distinguished_by_their_ids() -> None:
    pair = [replace(CARD, id=id, name="nice") for id in ("home", "away")]
    rows = ModelInventory(roster=[*pair, CARD]).rows("home")
    assert [row.name for row in rows] == ["home (nice)", "away (nice)", CARD.name]


def test_a_size_that_the_worker_does_not_know_is_the_files(tmp_path: Path) -> None:
    held = new_library_setup(tmp_path).put(TALKER)
    card = Card("talker-9b", "local", "Talker 9B")
    [row] = ModelInventory(roster=[card], held=[held]).rows("")
    assert row.size == TALKER.size


@pytest.mark.parametrize("width", [0, 30, 74, 76, 109, 110, 136])
def test_columns_stay_within_the_width(width: int) -> None:
    columns = model_table.Columns(width)
    row = ModelRow(
        "k",
        "名前" * 30,
        "here",
        roles=tuple(ModelRole),
        size=123_456_789_012,
        memory=98_765_432_109,
        speed=123.4,
        used=5.0,
    )
    line = columns.line(row, 1e9)
    assert line.cell_length == columns.heading().cell_length
    assert line.cell_length <= max(width, 69)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "now"), (59, "now"), (60, "1min"), (7200, "2h"), (86_400 * 9, "9d"), (4e7, "1y")],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert model_table.age_text(1e9 - seconds, 1e9) == words


@pytest.mark.parametrize(
    ("held", "is_fetchable"),
    [
        ({"here": False}, True),
        ({"here": False, "paused": True}, True),
        ({"wrong": "its contents aren't what they should be"}, True),
        ({}, False),
    ],
)
def test_what_can_be_fetched(tmp_path: Path, held: dict[str, object], is_fetchable: bool) -> None:
    model = new_library_setup(tmp_path).put(TALKER, **held)  # type: ignore[arg-type]
    assert stored_row(model).is_fetchable is is_fetchable


def test_a_linked_model_whose_file_is_gone_can_be_fetched_where_its_source_is_known(
    tmp_path: Path,
) -> None:
    model = new_library_setup(tmp_path).put(TALKER)
    linked = replace(model.record, link=str(tmp_path / "gone.gguf"))
    gone = replace(model, record=linked, state=ModelState.GONE)
    assert stored_row(gone).is_fetchable
    assert not stored_row(replace(gone, record=replace(linked, source=UNKNOWN_SOURCE))).is_fetchable
