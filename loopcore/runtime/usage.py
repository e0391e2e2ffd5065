"""What a call is charged: measured where it was measured, reserved where it was not.

Source: spec runtime, section 2 (Choices: usage that is missing, partial or late).
"""

from __future__ import annotations

import msgspec

from loopcore.runtime.amounts import Amounts, Measured

METERED: tuple[str, ...] = Measured.__struct_fields__


def charge(reserved: Amounts, measured: Measured) -> Amounts:
    """Return what a reservation is settled at; its step and calls are charged whatever came."""
    cost = _known(measured.cost_microunits, reserved.cost_microunits)
    if not reserved.model_calls:
        # Tokens belong to a model call: what another call reports of them has no place in a step.
        return msgspec.structs.replace(reserved, cost_microunits=cost)
    return msgspec.structs.replace(
        reserved,
        cost_microunits=cost,
        input_tokens=_known(measured.input_tokens, reserved.input_tokens),
        output_tokens=_known(measured.output_tokens, reserved.output_tokens),
    )


def _known(measured: int | None, reserved: int) -> int:
    return reserved if measured is None else measured


def is_complete(reserved: Amounts, measured: Measured) -> bool:
    """Return whether nothing of the charge stands for usage that nobody measured."""
    return all(
        getattr(measured, name) is not None
        or (not reserved.value(name) and not reserved.model_calls)
        for name in METERED
    )
