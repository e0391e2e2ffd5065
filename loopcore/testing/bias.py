"""How strongly generated traces are biased to what is hard, as shares of all traces.

Theory of operation: traces are drawn from each strategy under a fixed seed and classified by the
naive model. A *boundary distance* is how far a bound lies from the last figure that it is compared
with: at distance 0 the rule fires exactly there, at 1 it just passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from loopcore.testing import naive
from loopcore.testing.building import (
    SHORT_NAMES,
    bounds_of,
    firing_bound,
    measure,
    number_of,
)
from loopcore.testing.naive_wire import Record, as_record
from loopcore.testing.pairs import fired_outcomes, pair_label
from loopcore.testing.strategies import (
    defective_traces,
    list_of,
    long_traces,
    traces,
    traces_firing,
)

# Distances beyond this one are far away and not counted.
DISTANCE_MAX = 2
# What the printed table is made of.
TABLE_TRACES = 2_500
TABLE_SEED = 1

# How fast or how often values are drawn is nothing that this measures.
NO_HEALTH_CHECKS = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)

Bias = dict[str, dict[str, float]]


def draw_many(strategy: SearchStrategy[Record], n: int, fixed_seed: int) -> list[Record]:
    """Return `n` values of a strategy, the same ones for the same seed."""
    drawn: list[Record] = []

    @seed(fixed_seed)
    @settings(
        max_examples=n,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=NO_HEALTH_CHECKS,
    )
    @given(strategy)
    def collect(value: Record) -> None:
        drawn.append(value)

    collect()
    return drawn


def bias(n: int, fixed_seed: int) -> Bias:
    """Return shares among `n` traces: per terminal, error code, pair and boundary distance.

    Terminals and distances are shares of `traces()`, pairs of `traces_firing()`, codes of
    `defective_traces()`; `late` is the share of `long_traces()` that go on after their terminal.
    """
    terminals: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    distances: Counter[str] = Counter()
    for trace in draw_many(traces(), n, fixed_seed):
        receipt = as_record(naive.evaluate(trace["policy"], trace["steps"])["receipt"])
        steps = list_of(trace["steps"])
        release = str(receipt["evaluator_release"])
        terminals[f"{SHORT_NAMES[release]}:{receipt['terminal']}"] += 1
        distances.update(_distances(as_record(trace["policy"]), steps))
    for trace in draw_many(traces_firing(), n, fixed_seed):
        receipt = as_record(naive.evaluate(trace["policy"], trace["steps"])["receipt"])
        fired = fired_outcomes(receipt, list_of(trace["steps"])[-1])
        release = str(receipt["evaluator_release"])
        pairs.update(pair_label(release, pair) for pair in combinations(fired, 2))
    codes: Counter[str] = Counter()
    for trace in draw_many(defective_traces(), n, fixed_seed):
        codes[str(as_record(naive.evaluate(trace["policy"], trace["steps"])["error"])["code"])] += 1
    late = Counter(
        "late"
        for trace in draw_many(long_traces(), n, fixed_seed)
        if "error" in naive.evaluate(trace["policy"], trace["steps"])
    )
    parts = {
        "terminals": terminals, "codes": codes, "pairs": pairs, "distances": distances,
        "late": late,
    }  # fmt: skip
    return {
        part: {name: count / n for name, count in found.items()} for part, found in parts.items()
    }


def _distances(policy: Record, steps: list[Record]) -> Iterable[str]:
    if not steps:
        return
    figures = measure(steps)[-1]
    for field in bounds_of(str(policy["evaluator_release"])):
        if policy[field] is not None:
            distance = number_of(policy, field) - firing_bound(field, figures[field])
            if abs(distance) <= DISTANCE_MAX:
                yield f"{field}:{distance:+d}"


def bias_table(shares: Bias) -> str:
    """Return the shares as lines of text, the rarest of each part first."""
    lines: list[str] = []
    for part, found in shares.items():
        lines.append(f"{part} ({len(found)})")
        lines += [f"  {share:7.2%}  {name}" for name, share in sorted(found.items(), key=_share)]
    return "\n".join(lines)


def _share(item: tuple[str, float]) -> float:
    return item[1]


def main() -> None:
    """Print the shares of a fixed number of traces."""
    import sys

    sys.stdout.write(bias_table(bias(TABLE_TRACES, TABLE_SEED)) + "\n")


if __name__ == "__main__":
    main()
