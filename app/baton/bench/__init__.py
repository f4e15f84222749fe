"""Questions with known answers: strategies compared on them, live and replayed."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.bench.backtest import (
        PastPrompt as PastPrompt,
        PolicyRow as PolicyRow,
        actual_row as actual_row,
        replay_policy as replay_policy,
    )
    from baton.bench.conductor_bench import (
        ConductorBench as ConductorBench,
        ConductorRow as ConductorRow,
        plan_drawer as plan_drawer,
    )
    from baton.bench.conductor_score import Episode as Episode, read_episodes as read_episodes
    from baton.bench.datasets import read_dataset as read_dataset
    from baton.bench.replay_worker import (
        ReplayWorker as ReplayWorker,
        recorded_card as recorded_card,
    )
    from baton.bench.strategy_bench import (
        BenchSetting as BenchSetting,
        Execute as Execute,
        Grader as Grader,
        PlayedQuestion as PlayedQuestion,
        ResultsFile as ResultsFile,
        StrategyRow as StrategyRow,
        baseline_rows as baseline_rows,
        mixing_ends as mixing_ends,
        play_all as play_all,
        random_mixing as random_mixing,
        sum_row as sum_row,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        backtest="PastPrompt PolicyRow actual_row replay_policy",
        conductor_bench="ConductorBench ConductorRow plan_drawer",
        conductor_score="Episode read_episodes",
        datasets="read_dataset",
        replay_worker="ReplayWorker recorded_card",
        strategy_bench=(
            "BenchSetting Execute Grader PlayedQuestion ResultsFile StrategyRow "
            "baseline_rows mixing_ends play_all random_mixing sum_row"
        ),
    )
