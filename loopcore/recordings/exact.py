"""A decoded JSON value becomes JSON text again with every digit kept and any text representable.

Theory of operation: the standard encoder is used as long as there is no exact decimal; it escapes
all that is not ASCII, so that an unpaired surrogate is written too. Decimals are written in their
own digits. The walk keeps its own stack, so that depth is no limit.

Source: incident 13.5; spec controllers, section 7 (numbers keep their exact decimals).
"""

from __future__ import annotations

import json
from decimal import Decimal

from loopcore.recordings.nodes import as_elements, as_fields


class _Text(str):
    """JSON text that is finished, as opposed to a text value."""

    __slots__ = ()


def exact_json(value: object) -> str:
    """Return one line of JSON text with the same value: keys in their order, ASCII only.

    Errors: TypeError for a value that is not JSON.
    """
    parts: list[str] = []
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        fields, elements = as_fields(item), as_elements(item)
        if isinstance(item, _Text):
            parts.append(item)
        elif isinstance(item, Decimal):
            parts.append(str(item))
        elif fields is not None:
            parts.append("{")
            pending.append(_Text("}"))
            comma = len(fields)
            for key, inner in reversed(fields.items()):
                comma -= 1
                pending.extend((inner, _Text(f"{',' if comma else ''}{json.dumps(key)}:")))
        elif elements is not None:
            parts.append("[")
            pending.append(_Text("]"))
            for number in range(len(elements) - 1, -1, -1):
                pending.append(elements[number])
                if number:
                    pending.append(_Text(","))
        else:
            parts.append(json.dumps(item, allow_nan=False))
    return "".join(parts)
