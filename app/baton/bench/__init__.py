"""Questions with known answers: strategies, spending and conductors compared."""

from baton.bench.backtest import (
    PastPrompt as PastPrompt,
    PolicyRow as PolicyRow,
    actual_row as actual_row,
    backtest_pace as backtest_pace,
)
from baton.bench.conductor_bench import (
    ConductorRow as ConductorRow,
    draw_plans as draw_plans,
    read_episodes as read_episodes,
)
from baton.bench.graded_questions import Question as Question, read_dataset as read_dataset
from baton.bench.strategy_bench import (
    QuestionResult as QuestionResult,
    ResultsFile as ResultsFile,
    StrategyRow as StrategyRow,
    code_executor as code_executor,
    grader as grader,
    run_questions as run_questions,
)
