"""Limits: every bound and threshold of a controller, decoded strictly and overlaid by field.

Theory of operation: `Limits` and `ToolPolicy` hold values; `decode_limits` is the only way in from
JSON. Which values a field takes is a table. A field that is not given keeps the base's value, so
the limits of a run overlay those of a file and these overlay the defaults; `tools` is replaced as
a whole. None means "off". The horizon alone also has a third state, not given: it then follows
max_steps, whichever layer set that.

Source: spec controllers, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from loopcore.control.json_text import JsonTextError, NumberText, exact_int, parse_json
from loopcore.errors import UsageError

Gate = Literal["trust", "verify"]
Effect = Literal["none", "idempotent", "unsafe"]

# The derived horizon: a multiple of max_steps, or a number of turns where there is no max_steps.
HORIZON_FACTOR = 4
HORIZON_WITHOUT_STEPS = 120


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the user knows of one tool.

    Fields:
        repeatable: exempt from exact repetition. wait: a poll, bounded by its waits.
        max_waits: observations without progress, or None for the limit of all tools.
        volatile: names of fields that are left out of fingerprints, at every depth.
        effect: what a second execution does; no part in levels A to D.
    """

    repeatable: bool = False
    wait: bool = False
    max_waits: int | None = None
    volatile: tuple[str, ...] = ()
    effect: Effect = "unsafe"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run; None is off. Fields: spec controllers, section 3."""

    gate: Gate = "verify"
    max_steps: int | None = 30
    horizon: int | msgspec.UnsetType | None = msgspec.UNSET
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_cost_microunits: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_latency_ms: int | None = None
    repeat: int | None = 4
    window: int | None = 12
    error_streak: int | None = 4
    cycle_max: int | None = 6
    cycle_repeats: int = 3
    max_waits: int | None = 20
    max_refusals: int | None = 3
    tools: dict[str, ToolPolicy] = msgspec.field(default_factory=dict[str, ToolPolicy])
    max_replans: int | None = 2
    max_tool_retries: int | None = 2
    max_critiques: int | None = 1
    max_recoveries: int | None = 4

    def horizon_turns(self) -> int | None:
        """Return the turn number that ends the run, or None when the horizon is off."""
        if self.horizon is not msgspec.UNSET:
            return self.horizon
        if self.max_steps is None:
            return HORIZON_WITHOUT_STEPS
        return HORIZON_FACTOR * self.max_steps

    def policy(self, tool: str | None) -> ToolPolicy:
        """Return the policy of the tool with exactly this name, or that of an unnamed one."""
        return DEFAULT_POLICY if tool is None else self.tools.get(tool, DEFAULT_POLICY)

    def waits(self, tool: str) -> int | None:
        """Return how many observations without progress a waiting tool may have, None for any."""
        own = self.policy(tool).max_waits
        return self.max_waits if own is None else own


DEFAULT_POLICY = ToolPolicy()


class IntegerField(msgspec.Struct, frozen=True, kw_only=True):
    """An integer of at least `minimum`, or null where `nullable`."""

    minimum: int = 1
    nullable: bool = True


class ChoiceField(msgspec.Struct, frozen=True, kw_only=True):
    """One of some texts."""

    choices: tuple[str, ...]


class FlagField(msgspec.Struct, frozen=True, kw_only=True):
    """true or false."""


class NamesField(msgspec.Struct, frozen=True, kw_only=True):
    """A list of texts."""


Field = IntegerField | ChoiceField | FlagField | NamesField

# Every field of the limits but `tools`, with the values it takes.
LIMIT_FIELDS: Mapping[str, Field] = {
    "gate": ChoiceField(choices=("trust", "verify")),
    "max_steps": IntegerField(),
    "horizon": IntegerField(),
    "max_model_calls": IntegerField(),
    "max_tool_calls": IntegerField(),
    "max_cost_microunits": IntegerField(),
    "max_input_tokens": IntegerField(),
    "max_output_tokens": IntegerField(),
    "max_latency_ms": IntegerField(),
    "repeat": IntegerField(minimum=2),
    "window": IntegerField(),
    "error_streak": IntegerField(),
    "cycle_max": IntegerField(minimum=2),
    "cycle_repeats": IntegerField(minimum=2, nullable=False),
    "max_waits": IntegerField(),
    "max_refusals": IntegerField(minimum=0),
    "max_replans": IntegerField(minimum=0),
    "max_tool_retries": IntegerField(minimum=0),
    "max_critiques": IntegerField(minimum=0),
    "max_recoveries": IntegerField(minimum=0),
}

POLICY_FIELDS: Mapping[str, Field] = {
    "repeatable": FlagField(),
    "wait": FlagField(),
    "max_waits": IntegerField(),
    "volatile": NamesField(),
    "effect": ChoiceField(choices=("none", "idempotent", "unsafe")),
}


def decode_limits(value: object, base: Limits | None = None) -> Limits:
    """Return the base's limits with every given field in place of the base's.

    Arguments:
        value: a JSON object as parsed: a dict; its numbers int, or anything else to be refused.
        base: what fields that are not given keep; None for the defaults.

    Errors: UsageError naming the path of a field that is unknown or has a wrong value.

    Source: spec controllers, sections 3 and 7.
    """
    given = _object(value, "limits")
    changes: dict[str, object] = {}
    for name, item in given.items():
        if name == "tools":
            policies = _object(item, "limits.tools")
            changes[name] = {
                tool: _policy(policy, f"limits.tools.{_shown(tool)}")
                for tool, policy in policies.items()
            }
        else:
            changes[name] = _field(LIMIT_FIELDS, name, item, "limits")
    return msgspec.structs.replace(Limits() if base is None else base, **changes)


def read_limits(data: bytes, base: Limits | None = None) -> Limits:
    """Return the limits that a file's bytes hold, overlaid on the base.

    Errors: UsageError when the bytes are not JSON in UTF-8, or as `decode_limits`.
    """
    try:
        value = parse_json(data.decode("utf-8"))
    except (UnicodeDecodeError, JsonTextError) as error:
        raise UsageError(f"limits: not JSON in UTF-8: {error}") from error
    return decode_limits(value, base)


def _policy(value: object, path: str) -> ToolPolicy:
    given = _object(value, path)
    fields = {name: _field(POLICY_FIELDS, name, item, path) for name, item in given.items()}
    return msgspec.structs.replace(DEFAULT_POLICY, **fields)


def _object(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected an object, got {_shown(value)}")
    items = cast("dict[object, object]", value)
    for key in items:
        if not isinstance(key, str):
            raise UsageError(f"{path}: expected texts as keys, got {_shown(key)}")
    return cast("dict[str, object]", items)


def _field(table: Mapping[str, Field], name: str, value: object, path: str) -> object:
    field = table.get(name)
    if field is None:
        raise UsageError(f"{path}.{_shown(name)}: unknown field")
    where = f"{path}.{name}"
    match field:
        case IntegerField():
            return _checked_integer(field, value, where)
        case ChoiceField():
            if isinstance(value, str) and value in field.choices:
                return value
            expected = " or ".join(f'"{choice}"' for choice in field.choices)
        case FlagField():
            if isinstance(value, bool):
                return value
            expected = "true or false"
        case NamesField():
            names = _names(value)
            if names is not None:
                return names
            expected = "a list of texts"
    raise UsageError(f"{where}: expected {expected}, got {_shown(value)}")


def _names(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    names = tuple(item for item in items if isinstance(item, str))
    return names if len(names) == len(items) else None


def _checked_integer(field: IntegerField, value: object, where: str) -> int | None:
    if value is None and field.nullable:
        return None
    number = exact_int(value)
    if number is not None and number >= field.minimum:
        return number
    expected = f"an integer of at least {field.minimum}" + (" or null" if field.nullable else "")
    raise UsageError(f"{where}: expected {expected}, got {_shown(value)}")


def _shown(value: object) -> str:
    """Return a short, printable name of a value; any value has one."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return ascii(value[:SHOWN_MAX])[1:-1]
        case NumberText():
            return value.text[:SHOWN_MAX]
        case int() | float():
            return "a number of many digits" if abs(value) > SHOWN_NUMBER_MAX else repr(value)
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return type(value).__name__


SHOWN_MAX = 60
SHOWN_NUMBER_MAX = 10**40
