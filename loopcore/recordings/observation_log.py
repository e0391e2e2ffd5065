"""loopcore/recording/1: our own log, JSON lines of runs and their observations.

Theory of operation: a line is a record. A record `run` opens a run with its outcome, a record
`observation` adds one observation to a run that was opened before. A resumed writer may write its
lines again: exact copies collapse, another content under the same run, turn and action is an
error, as is an observation of a run that was never opened. A torn last line is a finding.

Source: incidents 13.1, 13.4 and 13.5; spec controllers, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopcore.control.observations import Observation, Usage
from loopcore.recordings.building import NO_CALL, Imported
from loopcore.recordings.exact import exact_json
from loopcore.recordings.model import Listed, Run, is_call
from loopcore.recordings.nodes import Node
from loopcore.recordings.reading import parse_lines

FORMAT = "loopcore/recording/1"
_RUN_TEXTS = ("set", "format", "run_id", "task", "outcome", "signal", "source")
_USAGE = Usage.__struct_fields__
_RUN_FIELDS = frozenset(Run.__struct_fields__) - {"observations"} | {"schema", "record"}
_OBSERVATION_FIELDS = frozenset(Observation.__struct_fields__)


def lines(runs: Iterable[Run]) -> Iterator[str]:
    """Yield the log of these runs, line by line, each with its newline; ASCII only."""
    for run in runs:
        fields = {
            name: getattr(run, name) for name in Run.__struct_fields__ if name != "observations"
        }
        yield exact_json({"schema": FORMAT, "record": "run", **fields}) + "\n"
        for observation in run.observations:
            yield (
                exact_json(
                    {
                        "record": "observation",
                        "set": run.set,
                        "run_id": run.run_id,
                        "observation": _plain(observation),
                    }
                )
                + "\n"
            )


def _plain(observation: Observation) -> dict[str, object]:
    """Return the fields of an observation that say anything."""
    plain: dict[str, object] = {"turn": observation.turn, "action": observation.action}
    for name in Observation.__struct_fields__:
        value: object = getattr(observation, name)
        if name not in plain and name != "usage" and value is not None and value is not False:
            plain[name] = value
    if observation.verified is False:
        plain["verified"] = False
    usage = {
        name: getattr(observation.usage, name)
        for name in _USAGE
        if getattr(observation.usage, name) is not None
    }
    if usage:
        plain["usage"] = usage
    return plain


def matches_text(data: bytes) -> bool:
    """Return whether the first line has this format's outline."""
    return data.lstrip().startswith(b"{") and b'"record"' in data.split(b"\n", 1)[0]


def read_log(data: bytes, file: str) -> Imported:
    """Return the runs of a log; a run without an agent call and a torn tail are listed."""
    log = parse_lines(data, file)
    headers: dict[tuple[str, str], Node] = {}
    seen: dict[tuple[str, str], dict[tuple[int, int], Node]] = {}
    found: dict[tuple[str, str], list[Observation]] = {}
    for record in log.records:
        kind = record.field("record").text()
        key = (record.field("set").text(), record.field("run_id").text())
        if kind == "run":
            known = headers.setdefault(key, record)
            if known.value != record.value:
                record.reject(f"the run {key[1]!r} stands already with another content")
            seen.setdefault(key, {})
            found.setdefault(key, [])
        elif kind == "observation":
            if key not in headers:
                record.reject(f"an observation of the run {key[1]!r}, which was never opened")
            _add(record, seen[key], found[key])
        else:
            record.field("record").reject(f"unknown record {kind!r}")
    imported = Imported()
    for finding in log.findings:
        imported.listed.append(Listed(source=file, item="last line", reason=finding))
    for key, header in headers.items():
        run = _run(header, found[key])
        if any(is_call(observation) for observation in run.observations):
            imported.runs.append(run)
        else:
            imported.listed.append(
                Listed(
                    source=file, item=run.run_id, reason=NO_CALL, set=run.set, success=run.success
                )
            )
    return imported


def _add(record: Node, seen: dict[tuple[int, int], Node], found: list[Observation]) -> None:
    """Enter an observation unless it is an exact copy of one that stands already."""
    node = record.field("observation")
    observation = _observation(node)
    place = (observation.turn, observation.action)
    known = seen.setdefault(place, record)
    if known is record:
        if found and place <= (found[-1].turn, found[-1].action):
            node.reject("turn and action do not increase")
        found.append(observation)
    elif known.value != record.value:
        node.reject(f"turn {place[0]} action {place[1]} stands already with another content")


def _refuse_unknown(node: Node, known: frozenset[str]) -> None:
    for name, field in node.entries():
        if name not in known:
            field.reject("unknown field")


def _observation(node: Node) -> Observation:
    _refuse_unknown(node, _OBSERVATION_FIELDS)
    claims, verified = node.optional("claims_done"), node.optional("verified")
    arguments, result = node.optional("arguments"), node.optional("result")
    progress, usage = node.optional("progress"), node.optional("usage")
    return Observation(
        turn=_from_one(node.field("turn")),
        action=_from_one(node.field("action")),
        tool=_optional_text(node, "tool"),
        arguments=None if arguments is None else arguments.value,
        result=None if result is None else result.value,
        action_fingerprint=_optional_text(node, "action_fingerprint"),
        result_fingerprint=_optional_text(node, "result_fingerprint"),
        state_fingerprint=_optional_text(node, "state_fingerprint"),
        progress=None if progress is None else _integer(progress),
        error_class=_optional_text(node, "error_class"),
        claims_done=claims is not None and claims.boolean(),
        verified=None if verified is None else verified.boolean(),
        usage=Usage() if usage is None else _usage(usage),
    )


def _optional_text(node: Node, name: str) -> str | None:
    text = node.optional(name)
    return None if text is None else text.text()


def _from_one(node: Node) -> int:
    if not node.count():
        node.reject("expected a number from 1")
    return node.count()


def _integer(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        node.reject("expected an integer")
    return node.value


def _usage(node: Node) -> Usage:
    _refuse_unknown(node, frozenset(_USAGE))
    return Usage(**{name: inner.count() for name, inner in node.entries()})


def _run(header: Node, found: list[Observation]) -> Run:
    version = header.field("schema")
    if version.text() != FORMAT:
        version.reject(f"unknown schema {version.text()!r}; known is {FORMAT!r}")
    _refuse_unknown(header, _RUN_FIELDS)
    texts = {name: header.field(name).text() for name in _RUN_TEXTS}
    model, success = header.optional("model"), header.optional("success")
    warnings, rewards = header.optional("warnings"), header.optional("oracle_rewards")
    return Run(
        set=texts["set"],
        format=texts["format"],
        run_id=texts["run_id"],
        task=texts["task"],
        trial=header.field("trial").count(),
        model=None if model is None else model.text(),
        success=None if success is None else success.boolean(),
        outcome=texts["outcome"],
        censored=header.field("censored").boolean(),
        signal=texts["signal"],
        observations=tuple(found),
        source=texts["source"],
        cost_known=header.field("cost_known").boolean(),
        warnings=() if warnings is None else tuple(n.text() for n in warnings.array()),
        oracle_rewards=None if rewards is None else tuple(n.text() for n in rewards.array()),
    )
