"""Speed and memory of the reference evaluator, as ratios within one run.

    python bench/evaluator_ratios.py            the whole table, about a minute
    python bench/evaluator_ratios.py --short    without the stream of 1,000,000 steps
    python bench/evaluator_ratios.py --check    exit status 1 when a stated bound does not hold

Theory of operation: the machine is noisy, so the pieces are timed in turn, round after round, and
the minimum and the median of all rounds are printed. A ratio compares two minima of one run. Times
are the thread's own processor time, so that a neighbour's work counts as little as it can. The
yardstick is what nobody can avoid: to decode the bytes with msgspec and to hash them once.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec

from loopcore.canonical import canonical
from loopcore.decoding import decode_trace
from loopcore.documents import evaluate_stream, evaluate_trace
from loopcore.evaluator import Run
from loopcore.models import Policy, Step, Trace
from loopcore.terminals import EXTENDED, REFERENCE

STEPS = 100
ROUNDS = 60
CALLS_A_ROUND = 20
STREAM_SIZES = (1_000, 10_000, 100_000, 1_000_000)
RATIO_MAX = 2.6
DECISION_NS_MAX = 900
GROWTH_MAX = 1.5


def name(text: str) -> str:
    """Return a digest that stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def policy(release: str) -> Policy:
    """Return a policy whose bounds a long productive run never meets."""
    extended = release == EXTENDED
    return msgspec.convert(
        {
            "schema": "loopcore/policy/1",
            "policy_id": "bench",
            "evaluator_release": release,
            "run_envelope_sha256": name("envelope"),
            "behavior_spec_sha256": name("specification"),
            "initial_state_sha256": name("state 0"),
            "started_at_unix_ms": 1_700_000_000_000,
            "deadline_unix_ms": 1_800_000_000_000,
            "max_steps": 10**9,
            "max_model_calls": 10**9,
            "max_tool_calls": 10**9,
            "max_repairs": 10**9,
            "max_cost_microunits": 10**15,
            "max_consecutive_no_progress": 12,
            "max_consecutive_repeated_actions": 4,
            "max_input_tokens": 10**15 if extended else None,
            "max_output_tokens": 10**15 if extended else None,
            "max_evidence_receipts": 10**9 if extended else None,
            "max_cycle_length": 6 if extended else None,
            "cycle_repeats": 3 if extended else None,
        },
        Policy,
    )


def step(index: int, *, evidence: bool = True) -> Step:
    """Return a productive step: every other one a model call, with evidence of its own."""
    model = index % 2 == 0
    return Step(
        sequence=index + 1,
        action_kind="model_generation" if model else "tool_call",
        action_sha256=name(f"action {index}"),
        state_before_sha256=name(f"state {index}"),
        state_after_sha256=name(f"state {index + 1}"),
        new_evidence_receipt_sha256=(name(f"evidence {index if evidence else 0}"),),
        outcome="succeeded",
        completed_at_unix_ms=1_700_000_000_000 + index,
        model_calls_delta=int(model),
        tool_calls_delta=int(not model),
        repairs_delta=0,
        cost_microunits_delta=1_250,
        input_tokens_delta=900 if model else 0,
        output_tokens_delta=150 if model else 0,
        completion_receipt_sha256=None,
    )


def measure(pieces: dict[str, Callable[[], object]], per: int) -> dict[str, list[float]]:
    """Return nanoseconds a step of each piece for every round; the pieces take turns."""
    times: dict[str, list[float]] = {piece: [] for piece in pieces}
    for _ in range(ROUNDS):
        for piece, call in pieces.items():
            began = time.thread_time_ns()
            for _ in range(CALLS_A_ROUND):
                call()
            times[piece].append((time.thread_time_ns() - began) / CALLS_A_ROUND / per)
    return times


def decide_all(rules: Policy, steps: tuple[Step, ...]) -> None:
    """Judge all steps, without decoding or hashing."""
    Run(rules).decide(steps)


def bench_pipeline() -> bool:
    """Print the cost of whole traces beside the yardstick; return whether the bounds hold."""
    steps = tuple(step(index) for index in range(STEPS))
    reference, extended = policy(REFERENCE), policy(EXTENDED)
    trace = Trace(schema="loopcore/trace/1", policy=reference, steps=steps)
    data = canonical(trace)
    spaced = msgspec.json.format(msgspec.json.encode(trace), indent=1)
    decoder = msgspec.json.Decoder(Trace)
    yardstick = "msgspec decode + one SHA-256"
    pipeline = "decode + validate + evaluate + receipt"
    decision = "decision alone, reference release"
    times = measure(
        {
            yardstick: lambda: (decoder.decode(data), hashlib.sha256(data).digest()),
            pipeline: lambda: evaluate_trace(data),
            "the same, indented and in table order": lambda: evaluate_trace(spaced),
            "decoding and validation alone": lambda: decode_trace(data),
            decision: lambda: decide_all(reference, steps),
            "decision alone, extended, cycles to 6": lambda: decide_all(extended, steps),
        },
        STEPS,
    )
    floor = min(times[yardstick])
    print(f"{STEPS}-step traces, {len(data) / STEPS:.0f} bytes a step, {ROUNDS} rounds\n")
    print(f"{'piece':<42}{'ns a step: min':>16}{'median':>9}{'ratio of minima':>18}")
    for piece, rounds in times.items():
        low, middle = min(rounds), statistics.median(rounds)
        print(f"{piece:<42}{low:>16.0f}{middle:>9.0f}{low / floor:>18.2f}")
    ratio, alone = min(times[pipeline]) / floor, min(times[decision])
    print(f"\npipeline / yardstick {ratio:.2f} (at most {RATIO_MAX})")
    print(f"decision alone {alone:.0f} ns a step (at most {DECISION_NS_MAX})")
    return ratio <= RATIO_MAX and alone <= DECISION_NS_MAX


def write_stream(path: Path, size: int, *, evidence: bool) -> None:
    """Write a stream of productive steps; without evidence of their own they share one digest."""
    # Without fresh evidence no step is progress, so that bound must be out of the way.
    header = {"schema": "loopcore/trace/1", "policy": policy(REFERENCE)}
    rules = msgspec.structs.replace(policy(REFERENCE), max_consecutive_no_progress=10**9)
    header["policy"] = rules
    with path.open("wb") as file:
        file.write(canonical(header) + b"\n")
        for index in range(size):
            file.write(canonical(step(index, evidence=evidence)) + b"\n")


def bench_stream(sizes: tuple[int, ...]) -> bool:
    """Print cost and memory of streams of growing length; return whether the growth is bounded."""
    print(f"\n{'stream of steps':>16}{'ns a step':>12}{'peak with evidence':>20}{'without':>12}")
    costs: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            peaks: list[int] = []
            for evidence in (True, False):
                path = Path(folder) / "stream.jsonl"
                write_stream(path, size, evidence=evidence)
                if evidence:
                    costs[size] = min(_stream_seconds(path) for _ in range(3)) / size * 1e9
                peaks.append(_stream_peak(path))
            per = (peaks[0] - peaks[1]) / size
            print(
                f"{size:>16,}{costs[size]:>12.0f}{peaks[0]:>14,} bytes{peaks[1]:>12,}"
                f"   {per:.0f} bytes a distinct evidence digest"
            )
    growth = costs[sizes[-1]] / costs[sizes[0]]
    print(f"\ncost a step at {sizes[-1]:,} / at {sizes[0]:,}: {growth:.2f} (at most {GROWTH_MAX})")
    return growth <= GROWTH_MAX


def _stream_seconds(path: Path) -> float:
    with path.open("rb") as source:
        began = time.thread_time()
        evaluate_stream(source)
        return time.thread_time() - began


def _stream_peak(path: Path) -> int:
    tracemalloc.start()
    with path.open("rb") as source:
        evaluate_stream(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bench_start_up() -> None:
    """Print what `--version` and `--help` cost beside a bare interpreter."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    commands = {
        "python -c pass": ["-c", "pass"],
        "loopcore --version": ["-m", "loopcore", "--version"],
        "loopcore --help": ["-m", "loopcore", "--help"],
    }
    print()
    for label, words in commands.items():
        seconds: list[float] = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=environment
            )
            seconds.append(time.perf_counter() - began)
        print(f"{label:<22}{min(seconds) * 1e3:>7.0f} ms (minimum of {len(seconds)})")


def main() -> int:
    """Print all tables; return 1 when a bound does not hold and that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--short", action="store_true", help="leave out the longest streams")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound is passed")
    options = parser.parse_args()
    holds = bench_pipeline()
    holds = bench_stream(STREAM_SIZES[:2] if options.short else STREAM_SIZES) and holds
    bench_start_up()
    print("\nall bounds hold" if holds else "\na bound does not hold")
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
