"""The command lines that are run: in an empty home, in an old one, and wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """A command line (words apart by spaces, unless `more` follows), and what surrounds it.

    `varying` names fields of its JSON that differ between machines.
    """

    words: str
    more: tuple[str, ...] = ()
    piped: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    varying: tuple[str, ...] = ()

    @property
    def args(self) -> tuple[str, ...]:
        """The arguments of `baton`."""
        return (*self.words.split(), *self.more)

    @property
    def text(self) -> str:
        """The whole, by which it is found in the inventory."""
        variables = (f"{name}={value}" for name, value in self.variables.items())
        text = " ".join([*variables, *(word if word else repr(word) for word in self.args)])
        return f"{text}, config.toml: {self.config.rstrip()}" if self.config else text


EMPTY = (
    Line("config edit", variables={"EDITOR": "cat"}),
    Line("--version"),
    Line("--help"),
    *(Line(f"completion {shell}") for shell in ("bash", "zsh", "fish")),
    Line("config path"),
    Line("config path --all"),
    Line("config path --json"),
    Line("config show"),
    Line("config show --json"),
    Line("budget show"),
    Line("budget release"),
    Line("budget prices"),
    Line("keys ls"),
    Line("history ls"),
    Line("history ls --json"),
    Line("history search heron"),
    Line("history export"),
    Line("usage"),
    Line("usage --by worker --json"),
    Line("egress ls"),
    Line("egress ls --json"),
    Line("egress export"),
    Line("workers ls"),
    Line("workers show small"),
    Line("workers show calculator"),
    Line("models role"),
    Line("models prune"),
    Line("self show"),
    Line("why"),
    Line("trace"),
    Line("resume"),
    Line("learn"),
    Line("budget set day 2"),
    Line("budget set month 20.50"),
    Line("budget set policy once"),
    Line("budget set pace frugal"),
    Line("budget show"),
    Line("budget show --json"),
    Line("config show"),
    Line("config show --json", variables={"BATON_LOCAL__THREADS": "4", "BATON_OFFLINE": "yes"}),
    Line("budget set day none"),
    Line("budget show"),
)
"""In this order, in one home."""

SCRIPTED = (
    Line("plan", more=("Name three rivers",)),
    Line("ask", more=("Name three rivers",)),
    Line("ask --no-stream", more=("And", "three", "lakes"), piped="A map\n"),
    Line("ask -c", more=("And three seas",)),
    Line("ask --private", more=("A secret",)),
    Line("ask --strategy vote", more=("Heads or tails?",)),
    Line("ask --mode ultra", more=("Write a poem about rivers, then check it",)),
    Line("ask --no-history", more=("Forget it",)),
    Line("ask -m broken", more=("Fail",)),
    Line("ask -m broken --json", more=("Fail",)),
    Line("ask -m short", more=("Be cut",)),
    Line("ask -m silent", more=("Say nothing",)),
    Line("workers test small"),
    Line("workers test broken"),
    Line("why"),
    Line("trace"),
    Line("trace --texts"),
    Line("trace --otel"),
    Line("plan --strategy split-merge", more=("Name a river and name a lake",)),
    Line("resume"),
    Line("why"),
    Line("trace"),
    Line("trace --texts"),
    Line("history ls"),
    Line("history search rivers"),
    Line("history export"),
    Line("resume"),
    Line("history rate good"),
    Line("history export --format json -o all.json"),
    Line("history export --format json -o all.json"),
    Line("history import all.json"),
    Line("history import all.json", variables={"BATON_HOME": "second"}),
    Line("history ls", variables={"BATON_HOME": "second"}),
    Line("why", variables={"BATON_HOME": "second"}),
    Line("usage"),
    Line("egress ls"),
    Line("ask --json hi"),
    Line("ask --events hi"),
    Line("ask --json -m broken hi"),
    Line("ask --events --strategy vote hi"),
    Line("plan --json hi"),
    Line("workers test small --json"),
    Line("why --json"),
    Line("trace --json"),
)
"""With workers that follow a script, in one home."""

OLD_RUNS = (
    "9119b573411d",
    "470163a66157",
    "a1a0e232b800",
    "b223a49689da",
    "5e0d8b34a976",
    "a0724d5d6cee",
)
"""The runs of the committed history: a plan with all kinds of steps, an interrupted one, one that
failed, a cancelled one, one of a remote worker, one that was cut."""

OLD = (
    Line("history ls"),
    Line("history ls --json"),
    Line("history search heron"),
    Line("history search heron --json"),
    Line("history show", more=("2d753b63b1af",)),
    Line("history show --json", more=("2d753b63b1af",)),
    Line("history show --json", more=("5314ed830926",)),
    Line("history export --format json"),
    Line("history export --format md"),
    *(
        Line(f"{verb} {run}")
        for run in OLD_RUNS
        for verb in ("why", "why --json", "trace", "trace --json")
    ),
    Line("usage"),
    Line("usage --by worker"),
    Line("usage --json"),
    Line("usage --by worker --json"),
    Line("usage --forecast --json"),
    Line("egress ls"),
    Line("egress ls --json"),
    Line("egress show 1"),
    Line("egress show 1 --json"),
    Line("egress show 5 --json"),
    Line("egress export"),
    Line("budget show"),
    Line("budget show --json"),
    Line("budget release"),
    Line("budget release --json"),
    Line("learn --json"),
    Line("history rm --yes 2d753b63b1af c76f7f2ac8f1"),
    Line("history ls"),
    Line("egress ls"),
    Line("usage"),
)
"""On the committed databases."""

OLD_VALUES = (
    Line("history ls --json", varying=("disk_bytes",)),
    Line("history search heron --json"),
    Line("history export --format json"),
    Line("egress export"),
    Line("usage --by purpose --json"),
    Line("budget show --json"),
    Line("budget release --json"),
)
"""On the committed databases, whose times and ids are fixed: what is read of them stays, too."""

SCORES = ("scores",)
"""Those of the router, or of the rule where it is late."""

WRONG = (
    Line("histories ls"),
    Line("history lss"),
    Line("history show"),
    Line("history show nope"),
    Line("history show nope --json"),
    Line("history rate good nope"),
    Line("history import /nope.json"),
    Line("", more=("What is this?",)),
    Line("--offline ask hi"),
    Line("--nope"),
    Line("ask"),
    Line("ask --nope hi"),
    Line("ask --mode fast hi"),
    Line("ask --strategy voted hi"),
    Line("ask --budget much hi"),
    Line("ask --continue=nope hi"),
    Line("ask -f /nope.txt hi"),
    Line("ask -m nobody hi"),
    Line("ask -m", more=("", "hi")),
    Line("ask -m /nope.gguf hi"),
    Line("ask -m /nope.gguf --json hi", varying=SCORES),
    Line("ask -m openai/gpt-5-mini --budget 1 hi"),
    Line("ask -m openai/gpt-5-mini hi"),
    Line(
        "ask -m openai/gpt-5-mini --json hi",
        variables={"OPENAI_API_KEY": "sk-test"},
        varying=SCORES,
    ),
    Line("ask -m openai/gpt-5-mini --offline --budget 1 hi"),
    Line("ask -m nowhere/none --budget 1 --events hi", varying=SCORES),
    Line("plan --strategy nope hi"),
    Line("resume nope"),
    Line("why nope"),
    Line("trace nope"),
    Line("workers show nope"),
    Line("workers test nope"),
    Line("models show nope"),
    Line("models pull nope"),
    Line("models pull nope --json"),
    Line("models rm nope"),
    Line("models role cook small"),
    Line("models import /nope.gguf"),
    Line("budget set week 2"),
    Line("budget set day -1"),
    Line("budget set day", more=("",)),
    Line("budget release nope"),
    Line("keys set nope"),
    Line("keys rm nope"),
    Line("keys test openai"),
    Line("egress show 9"),
    Line("usage --by weather"),
    Line("completion tcsh"),
    Line("self rollback"),
    Line("bench --strategy nope"),
    Line("config show", variables={"BATON_OFFLINE": "maybe"}),
    Line("config show", variables={"BATON_OFLINE": "1"}),
    Line("config show", variables={"BATON_COLOUR": "1"}),
    Line("config show", config="modes = 1\n"),
    Line("config show", config="mode = \n"),
    Line("config show", config='mode = "fast"\n'),
    Line("config show", config="[local]\nthreads = -1\n"),
    Line("config show --json", config='[budget]\nday = "much"\n'),
    Line("config show", config="[[workers]]\nid = 'a'\nkind = 'robot'\n"),
    Line("config show", config="[[workers]]\nid = 'a'\n"),
    Line("config show", config="[prefer]\ncooking = 'small'\n"),
    Line("ask hi", config="[keys]\n'chat.neww' = 'f3'\n", variables={"BATON_WORKER": "nobody"}),
)
"""Each in a home of its own."""

MACHINE = (*SCORES, "machine", "tokens_per_second", "memory_bytes", "battery", "gpus", "idle_gpus")

MODELS = (
    Line("models ls --json", varying=MACHINE),
    Line("models ls --all --json", varying=MACHINE),
    Line("models show small --json", varying=MACHINE),
    Line("models show qwen3.5-0.8b --json", varying=MACHINE),
    Line("models role --json"),
    Line("models verify --json"),
    Line("models prune --json"),
    Line("workers ls --json"),
    Line("workers show small --json", varying=MACHINE),
    Line("keys ls --json"),
    Line("budget prices --json"),
    Line("budget prices --all --json"),
    Line("config show --json"),
    Line("config path --json"),
    Line("self show --json"),
    Line("learn --json"),
    Line("plan --json hi", varying=MACHINE),
    Line("models recommend --json", varying=(*MACHINE, "models")),
    Line("doctor --json"),
)
"""In an empty home, with the starter model."""
