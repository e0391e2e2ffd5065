# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Levels A to E, and why repetition alone fails
#
# The first guard that people give an agent's loop is "stop when it calls the same thing three
# times". This page shows what that rule does to an agent that works well and to one that is stuck,
# what the levels of control do instead, and what each costs on tasks whose truth is known. Every
# figure below is computed when the page runs.

# %%
from collections.abc import Sequence

from loopcore.batch.interning import columns
from loopcore.batch.stop_times import REASONS, stop_times
from loopcore.comparison.bench_results import FigureValue
from loopcore.comparison.bench_summary import conclude
from loopcore.comparison.discrimination import discriminate, judged
from loopcore.comparison.sweep import sweep
from loopcore.comparison.sweep_chunks import Settings
from loopcore.comparison.sweep_contestants import default_entries
from loopcore.comparison.sweep_executors import executor
from loopcore.control.levels import controller
from loopcore.control.limits import Limits, ToolPolicy
from loopcore.control.observations import Observation
from loopcore.control.variants import named_controller
from loopcore.worlds.playing import tool_policies, trajectory
from loopcore.worlds.tasks import tasks

# A page prints what it computes, begins with its title, and has a header for Jupyter.
# ruff: noqa: D100, ERA001, T201

# %% [markdown]
# ## Two agents that look alike
#
# Both edit a file and run the same tests, over and over: the call is the same text each time. The
# first fixes one test after the other; nothing that the second does changes the outcome. What tells
# them apart is not in the call. It is the result, and the verified progress of the task.

# %%
TURNS = 12


def work(failing: Sequence[int]) -> list[Observation]:
    """Return a run that edits, then tests, with so many failing tests after each round."""
    seen: list[Observation] = []
    best = failing[0] + 1
    for turn in range(1, TURNS + 1):
        left = failing[(turn - 1) // 2]
        testing = turn % 2 == 0
        progress = int(left < best) if testing else 0
        best = min(best, left) if testing else best
        seen.append(
            Observation(
                turn=turn,
                action=1,
                tool="run_tests" if testing else "edit",
                arguments={} if testing else {"line": failing[0] - left},
                result=f"{left} failed" if testing else "saved",
                progress=progress,
            )
        )
    return seen


RUNS = {"fixes tests": work([6, 5, 4, 3, 2, 1]), "is stuck": work([6, 6, 6, 6, 6, 6])}


def stop_of(name: str, run: Sequence[Observation], limits: Limits) -> str:
    """Return at which turn a contestant stops a run, and why."""
    contestant = named_controller(name)
    contestant.start(limits)
    for seen in run:
        answer = contestant.observe(seen)
        if answer.decision == "stop":
            return f"turn {seen.turn}: {answer.reason}"
    return "not stopped"


for name in ("total-3", "C", "D"):
    for agent, run in RUNS.items():
        print(f"{name:8} an agent that {agent:12} {stop_of(name, run, Limits())}")

assert stop_of("total-3", RUNS["fixes tests"], Limits()) != "not stopped"
assert stop_of("D", RUNS["fixes tests"], Limits()) == "not stopped"
assert stop_of("D", RUNS["is stuck"], Limits()) != "not stopped"

# %% [markdown]
# "The same call three times anywhere" stops the good agent at its third run of the tests. Level C,
# the same call so many times *running*, sees neither, since an edit stands between. Level D counts
# repetition only where nothing changed, so it stops the stuck agent alone.
#
# ## A poll is not a loop
#
# Waiting for a job looks like repetition too. A tool that is declared as a wait has a bound of its
# own, and takes no part in the others.

# %%
poll = [
    Observation(
        turn=turn, action=1, tool="poll", arguments={"job": 7}, result="running", progress=0
    )
    for turn in range(1, 9)
]
declared = Limits(tools={"poll": ToolPolicy(wait=True, max_waits=20)})
print("not declared:", stop_of("D", poll, Limits()))
print("declared:    ", stop_of("D", poll, declared))
assert stop_of("D", poll, declared) == "not stopped"

# %% [markdown]
# ## Every pathology has a legitimate twin
#
# The twins are pairs of one shape and opposite verdict, drawn in many variants. A contestant is
# right about a pair when it stops the pathology in time and leaves the twin alone. Where both look
# equal in what a contestant reads, the pair is beyond it, and that is computed, not declared.

# %%
twins = discriminate([judged(name) for name in ("total-3", "C", "D", "E")], variants=4, seed=0)
for one in twins.contestants:
    print(
        f"{one.contestant:8} both sides right: {one.both_right:3} of {one.reachable:3} within its"
        f" reach, {one.beyond} pairs beyond it"
    )

# %% [markdown]
# ## What a level costs on tasks whose truth is known
#
# A world is a small real environment with tools, a state, a verifier and an agent with a habit. The
# truth is known: which tasks verify when nobody stops the agent, and from which turn a run is lost.
# A run under levels A to D is the same run, cut short, so contestants are compared task by task.
# The habits and their shares are ours: the figures compare contestants and describe no real agent.

# %%
given = tasks("coding", 200, seed=1)
runs = [trajectory(task, 120) for task in given]
limits = Limits(tools=tool_policies("coding"))
made = columns([run.observations for run in runs], limits)
for name in ("A", "B", "C", "D", "total-3"):
    stops = stop_times(made, limits, name)
    good = [run.verified_turn is not None for run in runs]
    cut = [
        reason != "completed" and is_good
        for reason, is_good in zip((REASONS[r] for r in stops.reason), good, strict=True)
    ]
    print(
        f"{name:8} stops {sum(cut):3} of {sum(good)} good runs, and takes {stops.turn.sum()} turns"
    )

# %% [markdown]
# The full comparison is `loopcore bench`. Here is a small one, on one application: intervals are
# exact for rates, and a paired bootstrap over tasks for costs.

# %%
settings = Settings(
    seed=0,
    applications=("coding",),
    stepwise=125,
    columnar=0,
    resamples=400,
    entries=default_entries(),
    limits=Limits(),
)
with executor(1, None) as pool:
    result = conclude(sweep(settings, pool, jobs=1))


def figure(value: FigureValue) -> str:
    """Return a figure with its interval."""
    if not isinstance(value.value, float) or value.interval is None:
        return f"{value.value}"
    low, high = value.interval.low, value.interval.high
    ends = [f"{end:.3g}" if isinstance(end, float) else end for end in (low, high)]
    return f"{value.value:.3g} [{ends[0]}, {ends[1]}]"


family = result.tiers[0].families[-1]
print(f"{family.tasks} tasks, of which {family.in_s} verify when nobody stops them")
for row in family.rows:
    if row.gate == "verify":
        stopped, cost = row.figures["false_stop_rate"], row.figures["cost_per_success"]
        print(f"{row.label:28} false stops {figure(stopped):26} cost a success {figure(cost)}")

# %% [markdown]
# ## Level E is a curve
#
# Level E changes something before it stops: another plan, other arguments, another tool. Whether
# that helps depends on the agent. The chance ρ that it leaves its habit is a parameter here, never
# a finding, so level E is a curve over ρ, and what can be said is from which ρ on it pays.

# %%
for one in family.break_even:
    print(f"gate {one.gate}: level E costs less per success than level D from rho = {one.rho} on")

answers = []
contestant = controller("E")
contestant.start(Limits())
for seen in RUNS["is stuck"]:
    answer = contestant.observe(seen)
    if answer.decision != "continue":
        answers.append(f"turn {seen.turn}: {answer.decision} ({answer.reason}, {answer.strategy})")
print("\n".join(answers))
assert any("recover" in text for text in answers)
