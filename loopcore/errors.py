"""Every exception that loopcore raises, sorted by whose fault it is.

Theory of operation: one base class, and a subclass for each party that can be at fault, so that a
caller can tell "fix your file" from "fix your evaluator" from "report a bug to us" without reading
the text. Facts travel as fields; the text is for people and is never compared.
"""

from __future__ import annotations


class LoopcoreError(Exception):
    """Base of every error that loopcore raises on purpose."""


class InputError(LoopcoreError):
    """The document is at fault: it does not decode, or its steps are not a well formed trace.

    Arguments:
        code: one of the codes in `loopcore.terminals.ERROR_CODES`.
        message: one sentence for people; never compared.
        path: JSON path of the offending value (`malformed`, `invalid_policy`), else None.
        step: 0-based index of the offending step (step codes), else None.
        terminal, terminal_sequence: the verdict already reached, for `post_terminal_step` only.

    Source: spec evaluator, sections 2 and 6.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        path: str | None = None,
        step: int | None = None,
        terminal: str | None = None,
        terminal_sequence: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path
        self.step = step
        self.terminal = terminal
        self.terminal_sequence = terminal_sequence

    def as_dict(self) -> dict[str, str | int | None]:
        """Return the error as it stands on the wire."""
        fields: dict[str, str | int | None] = {
            "code": self.code,
            "path": self.path,
            "step": self.step,
            "message": self.message,
        }
        if self.terminal is not None:
            fields["terminal"] = self.terminal
            fields["terminal_sequence"] = self.terminal_sequence
        return fields


class UsageError(LoopcoreError):
    """The caller is at fault: an option, name or setting that cannot be honoured (exit 2)."""


class TargetError(LoopcoreError):
    """The system under test is at fault: it died, hung, flooded, or answered out of order.

    Arguments:
        kind: `crash`, `hang`, `flood`, `order` or `answer`.
        request: the request that was being served, when one was.
    """

    def __init__(self, kind: str, message: str, *, request: object = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.request = request


class EnvironmentFault(LoopcoreError):
    """The machine is at fault: a full disk, a missing extra, a folder that cannot be written."""
