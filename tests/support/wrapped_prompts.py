"""Prompts as programs send them: with what they put around a user's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

_CHATS = Path(__file__).parents[2] / "scripts" / "data" / "ordinary_chats.jsonl"


def ordinary_questions(first: int, count: int) -> list[str]:
    """Return how so many ordinary chats begin, from the one with this number on.

    Those that a program wrapped already are left out.
    """
    lines = _CHATS.read_text("utf-8").splitlines()[first - 1 :]
    begun = (json.loads(line)["turns"][0] for line in lines)
    return list(islice((text for text in begun if "</environment_details>" not in text), count))


def claude_code(text: str) -> str:
    """As Claude Code: reminders before and after."""
    return (
        "<system-reminder>\nAs you answer the user's questions, you can use the following"
        " context:\n# claudeMd\nCodebase and user instructions are shown below. Be sure to adhere"
        " to these instructions. 1. Write tests first. 2. Then explain why. Never use `print`.\n\n"
        "      IMPORTANT: this context may or may not be relevant.\n</system-reminder>"
        f"\n{text}\n"
        "<system-reminder>\nThe TodoWrite tool hasn't been used recently. If you're working on"
        " tasks that would benefit from tracking progress, consider using it.\n</system-reminder>"
    )


def codex(text: str) -> str:
    """As Codex: instructions of the folder and its environment, in messages of their own."""
    return (
        "# AGENTS.md instructions for /home/ann/shop\n\n<INSTRUCTIONS>\n# Shop\n- Use pytest.\n"
        "- Compare prices in cents; what is 12 * 3?\n- Write SQL by hand.\n</INSTRUCTIONS>\n\n"
        "<environment_context>\n  <cwd>/home/ann/shop</cwd>\n  <approval_policy>on-request"
        "</approval_policy>\n  <sandbox_mode>workspace-write</sandbox_mode>\n  <network_access>"
        f"restricted</network_access>\n  <shell>bash</shell>\n</environment_context>\n\n{text}"
    )


def opencode(text: str) -> str:
    """As opencode in its plan mode: the reminder comes last."""
    return (
        f"{text}\n\n<system-reminder>\n# Plan Mode - System Reminder\n\nCRITICAL: Plan mode ACTIVE"
        " - you are in READ-ONLY phase. STRICTLY FORBIDDEN: ANY file edits, or system"
        " changes. Construct a well-formed plan that accomplishes the goal. Ask the user clarifying"
        " questions when weighing tradeoffs.\n</system-reminder>"
    )


def cline(text: str) -> str:
    """As Cline and Roo Code: the task in a block, then all of the editor."""
    return (
        f"<task>\n{text}\n</task>\n\n# task_progress RECOMMENDED\n\nWhen starting a new task, it"
        " is recommended to include a todo list.\n\n1. Include a list.\n2. Keep it focused.\n\n"
        "<environment_details>\n# Visual Studio Code Visible Files\napp/main.py\n\n# Current Time\n"
        "1/2/2026, 3:04:05 PM (Europe/Rome, UTC+1:00)\n\n# Current Working Directory Files\n"
        "README.md\nsrc/parser.py\ntests/test_parser.py\n\n# Context Window Usage\n0 / 200K tokens"
        " used (0%)\n\n# Current Mode\nACT MODE\n</environment_details>"
    )


def open_webui(text: str) -> str:
    """As Open WebUI with texts that it found."""
    return (
        "### Task:\nRespond to the user query using the provided context, incorporating inline"
        " citations in the format [id] **only when the <source> tag includes an explicit id"
        ' attribute** (e.g., <source id="1">).\n\n### Guidelines:\n- If you don\'t know the answer,'
        " clearly state that.\n- Respond in the same language as the user's query.\n\n### Output:\n"
        "Provide a clear and direct response to the user's query.\n\n<context>\n"
        '<source id="1" name="notes.md">Why do plants need light? Compare both essays.</source>\n'
        f"</context>\n\n{text}"
    )


WRAPPERS: Mapping[str, Callable[[str], str]] = {
    "Claude Code": claude_code,
    "Codex": codex,
    "opencode": opencode,
    "Cline": cline,
    "Open WebUI": open_webui,
}
