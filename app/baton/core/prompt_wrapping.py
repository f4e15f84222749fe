"""What programs put around the user's words in a prompt, and those words without it.

The blocks are those of Claude Code, Codex, opencode, Cline, Roo Code, Copilot, Cursor and Open
WebUI. They stand before or after the words; what stands among the words was written by the user.
"""

from __future__ import annotations

from baton.core.lazy_loading import lazy_pattern

_BLOCKS = (
    r"system[-_]reminder|system_notification|environment_(?:context|details|info)|workspace_info|"
    r"user_(?:instructions|info|rules)|permissions instructions|collaboration_mode|"
    r"(?:skills|apps)_instructions|recommended_plugins|turn_aborted|subagent_notification|"
    r"local-command-(?:caveat|stdout|stderr)|command-(?:name|message|contents)|bash-std(?:out|err)|"
    r"git-context|timestamp|editorContext|reminderInstructions"
)
_FIRST = lazy_pattern(
    rf"\s*(?:<(?P<tag>{_BLOCKS})>|# AGENTS\.md instructions[^\n]*\s+<(?P<agents>INSTRUCTIONS)>)"
)
_LAST = lazy_pattern(rf"</(?P<tag>{_BLOCKS})>\s*\Z")
_TAG_CHARS = 40
"""No tag is longer, with what may stand around it."""

_QUESTIONS = ("task", "user_message", "user_query", "command-args")
_LAST_QUESTION = "userRequest"
"""Blocks with the user's words in them; the last one may have any others before it."""

_TEMPLATE = lazy_pattern(r"\s*### Task:\s*(?P<task>[^\n]+)\n(?=[\s\S]*?<(?:chat_history|context)>)")
"""How Open WebUI asks for titles, tags and follow-ups, and puts found texts before a question."""

_CONTEXT_END = "</context>"

_TOOL_RESULT = lazy_pattern(r"<tool_response>[\s\S]*?(?:</tool_response>\s*|\Z)")

_MAX_BLOCKS = 16
_MAX_TITLE_CHARS = 1 << 16


def strip_wrapping(text: str) -> str:
    """Return a prompt without what programs put around the user's words; it may be all of it.

    A text without any is returned as it is.
    """
    rest = _without_blocks(text)
    if (template := _TEMPLATE.match(rest)) is not None:
        _, _, after = rest.rpartition(_CONTEXT_END)
        asked = _inner(after) or after if _CONTEXT_END in rest else ""
        return asked.strip() or template["task"].strip()
    return _inner(rest, may_end_early=rest is not text) or rest


def bare_question(text: str) -> str:
    """Return the user's words in a prompt; the whole of it where there is nothing else."""
    return strip_wrapping(text) or text


def spoken_words(text: str) -> str:
    """Return the user's words at a prompt's beginning, "" where only programs speak there."""
    return strip_wrapping(_TOOL_RESULT.sub("", text[:_MAX_TITLE_CHARS]))


def _without_blocks(text: str) -> str:
    """Return a text without the blocks at its beginning and at its end."""
    for _ in range(_MAX_BLOCKS):
        first = _FIRST.match(text)
        if first is None:
            break
        _, closed, rest = text[first.end() :].partition(f"</{first['tag'] or first['agents']}>")
        if not closed:
            break
        text = rest.strip()
    for _ in range(_MAX_BLOCKS):
        last = _LAST.search(text, max(0, len(text) - _TAG_CHARS))
        at = text.rfind(f"<{last['tag']}>") if last is not None else -1
        if at < 0:
            break
        text = text[:at].strip()
    return text


def _inner(text: str, *, may_end_early: bool = False) -> str:
    """Return what stands in a block with the user's words, "" where the text isn't one.

    It is the whole text, or with `may_end_early` begins it.
    """
    bare = text.strip()
    if bare.endswith(f"</{_LAST_QUESTION}>"):
        bare = bare[max(0, bare.rfind(f"<{_LAST_QUESTION}>")) :]
    for tag in (*_QUESTIONS, _LAST_QUESTION):
        start, end = f"<{tag}>", f"</{tag}>"
        if bare.startswith(start) and (bare.endswith(end) or (may_end_early and end in bare)):
            return bare.removeprefix(start).rpartition(end)[0].strip()
    return ""
