"""The evaluator's expressions as SMT-LIB terms.

Theory of operation: an expression of the evaluator's own source is evaluated over symbolic values.
Whatever can raise (a key that a table lacks, an order between None and a number) is kept as a
*fault* with the condition under which it would happen, and a proof has to show that it never does.
An expression of a shape that is not written here raises `UnknownShapeError`, so that nothing is
proved about code that was not understood.

The statements around the expressions are in `loopcore.verification.proofs.execution`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from loopcore.verification.proofs.terms import (
    EMPTY,
    FALSE,
    NO_VALUE,
    NONE,
    TRUE,
    Choice,
    Collection,
    Detector,
    Distinct,
    Flag,
    Listing,
    Named,
    Number,
    Row,
    Script,
    SetMethod,
    SetReference,
    Table,
    UnknownShapeError,
    Value,
    choose,
    conjunction,
    count,
    disjunction,
    equal,
    integer,
    negation,
)

Environment = dict[str, Value]

_ORDERS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_SUMS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One call of the cycle detector: when, with which pair, and the unknown that it returns."""

    guard: str
    pair: Row
    found: str


@dataclass(slots=True, kw_only=True)
class Expressions:
    """Evaluates expressions over symbolic values.

    Fields:
        module: the names of the module that the source makes.
        functions: its functions of one returned expression, which are put in place of a call.
        faults: what could raise, each with the condition under which it would.
        observations: the calls of cycle detectors; detectors: what each was made with.
    """

    script: Script
    module: Mapping[str, object]
    functions: Mapping[str, ast.FunctionDef]
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    observations: list[Observation] = field(default_factory=list[Observation])
    detectors: list[Row] = field(default_factory=list[Row])

    def value(self, node: ast.expr, env: Environment, guard: str) -> Value:
        """Return the value of an expression that is evaluated where `guard` is true."""
        match node:
            case ast.Constant(value=constant):
                return self.constant(constant)
            case ast.Name(id=name):
                return env[name] if name in env else self._global(name)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                return self._attribute(owner, attribute, env)
            case ast.Tuple(elts=elements):
                return Row(tuple(self.value(each, env, guard) for each in elements))
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return Flag(self.truth(node, env, guard))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _SUMS:
                terms = [self._integer(each, env, guard) for each in (left, right)]
                return Number(f"({_SUMS[type(operator)]} {' '.join(terms)})")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self.truth(test, env, guard)
                then = self.value(body, env, conjunction((guard, condition)))
                otherwise = self.value(orelse, env, conjunction((guard, negation(condition))))
                return self.merge(condition, then, otherwise)
            case ast.Subscript(value=container, slice=index):
                return self._item(self.value(container, env, guard), index, env, guard)
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self._call(function, arguments, env, guard)
            case _:
                raise unknown(node)

    def truth(self, node: ast.expr, env: Environment, guard: str) -> str:
        """Return the term of what an expression is where a condition is wanted."""
        match node:
            case ast.BoolOp(op=operator, values=values):
                terms: list[str] = []
                for each in values:
                    terms.append(self.truth(each, env, guard))
                    is_and = isinstance(operator, ast.And)
                    reached = terms[-1] if is_and else negation(terms[-1])
                    guard = conjunction((guard, reached))
                return (conjunction if isinstance(operator, ast.And) else disjunction)(terms)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negation(self.truth(operand, env, guard))
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._comparison(left, operator, right, env, guard)
            case _:
                found = self.value(node, env, guard)
        match found:
            case Flag(term):
                return term
            case Number(term, "integer", False):
                return negation(equal(term, "0"))
            case _:
                raise unknown(node)

    def constant(self, constant: object) -> Value:
        """Return the value of a constant of the module or of the text."""
        if constant is None:
            return NO_VALUE
        if isinstance(constant, bool):
            return Flag(TRUE if constant else FALSE)
        if isinstance(constant, int):
            return Number(integer(constant))
        if isinstance(constant, str):
            return Number(self.script.code(constant), "name")
        if isinstance(constant, tuple):
            items = cast("tuple[object, ...]", constant)
            return Row(tuple(self.constant(each) for each in items))
        if isinstance(constant, dict):
            return Table(cast("dict[str, object]", constant))
        raise UnknownShapeError(f"a constant of type {type(constant).__name__}")

    def merge(self, condition: str, then: Value, otherwise: Value) -> Value:
        """Return the one value or the other."""
        match then, otherwise:
            case _ if then == otherwise:
                return then
            case Number(), Number() if "none" in (then.meaning, otherwise.meaning):
                known = otherwise if then.meaning == "none" else then
                term = choose(condition, then.term, otherwise.term)
                return Number(self.script.define(term, "Int"), known.meaning, True)
            case Number(), Number() if then.meaning == otherwise.meaning:
                term = self.script.define(choose(condition, then.term, otherwise.term), "Int")
                return Number(term, then.meaning, then.nullable or otherwise.nullable)
            case Flag(left), Flag(right):
                return Flag(self.script.define(choose(condition, left, right), "Bool"))
            case Row(left), Row(right) if len(left) == len(right):
                pairs = zip(left, right, strict=True)
                return Row(tuple(self.merge(condition, one, other) for one, other in pairs))
            case Collection(), Collection():
                array = choose(condition, then.array, otherwise.array)
                size = choose(condition, then.size, otherwise.size)
                return Collection(
                    self.script.define(array, "(Array Int Bool)"), self.script.define(size, "Int")
                )
            case Detector(present), Number(meaning="none"):
                return Detector(conjunction((condition, present)))
            case Number(meaning="none"), Detector(present):
                return Detector(conjunction((negation(condition), present)))
            case _:
                raise UnknownShapeError(f"a variable is one of two unlike values: {then}")

    def _global(self, name: str) -> Value:
        if name not in self.module:
            raise UnknownShapeError(f"the name {name} is not known")
        return self.constant(self.module[name])

    def _attribute(self, owner: str, attribute: str, env: Environment) -> Value:
        base = env.get(owner)
        if isinstance(base, Named) and f"{base.name}.{attribute}" in env:
            return env[f"{base.name}.{attribute}"]
        if isinstance(base, SetReference) and attribute in ("add", "update"):
            return SetMethod(base, attribute)
        raise UnknownShapeError(f"the attribute {owner}.{attribute} is not known")

    def _integer(self, node: ast.expr, env: Environment, guard: str) -> str:
        """Return the term of an integer; None in its place is a fault."""
        found = self.value(node, env, guard)
        if not isinstance(found, Number) or found.meaning not in ("integer", "none"):
            raise unknown(node)
        if found.nullable:
            self.fault(conjunction((guard, equal(found.term, NONE))), node)
        return found.term

    def _item(self, container: Value, index: ast.expr, env: Environment, guard: str) -> Value:
        match container, index:
            case Row(items), ast.Constant(value=int(place)) if -len(items) <= place < len(items):
                return items[place]
            case Table(), _:
                key = self.value(index, env, guard)
                if not isinstance(key, Number):
                    raise unknown(index)
                if key.term in (names := {self.script.code(name): name for name in container.rows}):
                    return self.constant(container.rows[names[key.term]])
                missing = negation(self.contains(container, key))
                self.fault(conjunction((guard, missing)), index)
                return Choice(container, key.term)
            case _:
                raise unknown(index)

    def _call(
        self, function: ast.expr, arguments: list[ast.expr], env: Environment, guard: str
    ) -> Value:
        if isinstance(function, ast.Name) and function.id == "sha256":
            # The digest of the steps decides nothing.
            return Named("hasher")
        values = [self.value(each, env, guard) for each in arguments]
        match function, values:
            case ast.Name(id="set"), []:
                key = f"heap {len(env)}"
                env[key] = Collection(EMPTY, "0")
                return SetReference(key)
            case ast.Name(id="CycleDetector"), [Number() as length, Number() as repeats]:
                self.detectors.append(Row((length, repeats)))
                return Detector(TRUE)
            case ast.Name(id="len"), [Listing(_, length)]:
                return Number(length)
            case ast.Name(id="len"), [SetReference(key)]:
                held = env[key]
                assert isinstance(held, Collection)
                return Number(held.size)
            case ast.Name(id="len"), [Distinct(listing)]:
                firsts = [first for first, _ in first_places(self.script, listing)]
                return Number(self.script.define(count(firsts), "Int"))
            case ast.Name(id="set"), [Listing() as listing]:
                return Distinct(listing)
            case ast.Attribute(value=ast.Name(id=owner), attr="observe"), [Row() as pair]:
                return self._observe(env.get(owner), pair, guard)
            case ast.Name(id=name), _ if name in self.functions:
                return self._inline(self.functions[name], values, guard)
            case _:
                raise unknown(function)

    def _observe(self, detector: Value | None, pair: Row, guard: str) -> Value:
        if not isinstance(detector, Detector):
            raise UnknownShapeError("observe is called on something else than a detector")
        absent = conjunction((guard, negation(detector.present)))
        self.faults.append((absent, "the cycle detector is None"))
        found = self.script.declare(self.script.fresh("cycle"), "Bool")
        self.observations.append(Observation(guard=guard, pair=pair, found=found))
        return Flag(found)

    def _inline(self, function: ast.FunctionDef, values: list[Value], guard: str) -> Value:
        names = [argument.arg for argument in function.args.args]
        match function.body:
            case [ast.Return(value=ast.expr() as returned)] if len(names) == len(values):
                return self.value(returned, dict(zip(names, values, strict=True)), guard)
            case _:
                raise UnknownShapeError(f"the function {function.name}")

    def _comparison(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, env: Environment, guard: str
    ) -> str:
        if type(operator) in _ORDERS:
            terms = [self._integer(each, env, guard) for each in (left, right)]
            return f"({_ORDERS[type(operator)]} {' '.join(terms)})"
        one, other = self.value(left, env, guard), self.value(right, env, guard)
        match operator:
            case ast.Eq() | ast.Is():
                return self.same(one, other, is_identity=isinstance(operator, ast.Is))
            case ast.NotEq() | ast.IsNot():
                is_identity = isinstance(operator, ast.IsNot)
                return negation(self.same(one, other, is_identity=is_identity))
            case ast.In() | ast.NotIn():
                held = env[other.key] if isinstance(other, SetReference) else other
                found = self.contains(held, one)
                return found if isinstance(operator, ast.In) else negation(found)
            case _:
                raise UnknownShapeError(f"the comparison {type(operator).__name__}")

    def same(self, one: Value, other: Value, *, is_identity: bool) -> str:
        """Return the term of whether two values are equal."""
        match one, other:
            case Detector(present), Number(meaning="none"):
                return negation(present)
            case Number(), Number() if "none" in (one.meaning, other.meaning):
                return equal(one.term, other.term)
            case Number(), Number() if one.meaning == other.meaning and not is_identity:
                return equal(one.term, other.term)
            case Flag(left), Flag(right):
                return equal(left, right)
            case Row(left), Row(right) if len(left) == len(right) and not is_identity:
                pairs = zip(left, right, strict=True)
                return conjunction(self.same(a, b, is_identity=False) for a, b in pairs)
            case _:
                raise UnknownShapeError(f"two values that are not compared: {one}, {other}")

    def contains(self, container: Value, member: Value) -> str:
        """Return the term of whether a value stands in a container."""
        match container, member:
            case Listing(items, length), Number(term):
                places = enumerate(items)
                return disjunction(
                    conjunction((f"(< {place} {length})", equal(item, term)))
                    for place, item in places
                )
            case Collection(array, _), Number(term):
                return f"(select {array} {term})"
            case Table(rows), Number(term, "name"):
                return disjunction(equal(term, self.script.code(name)) for name in rows)
            case Choice(table, key), _:
                return disjunction(
                    conjunction((equal(key, self.script.code(name)), self._is_one_of(member, rows)))
                    for name, rows in table.rows.items()
                )
            case _:
                raise UnknownShapeError(f"a membership in {container}")

    def _is_one_of(self, member: Value, rows: object) -> str:
        if not isinstance(rows, tuple):
            raise UnknownShapeError("a row of a table that is not a tuple")
        constants = cast("tuple[object, ...]", rows)
        return disjunction(
            self.same(member, self.constant(each), is_identity=False) for each in constants
        )

    def fault(self, condition: str, node: ast.AST) -> None:
        """Keep that evaluating a node raises where the condition is true."""
        if condition != FALSE:
            self.faults.append((condition, f"line {getattr(node, 'lineno', '?')} raises"))


def first_places(script: Script, listing: Listing) -> list[tuple[str, str]]:
    """Return for each place whether a digest stands there for the first time, and the digest."""
    places: list[tuple[str, str]] = []
    for place, item in enumerate(listing.items):
        again = disjunction(equal(item, earlier) for earlier in listing.items[:place])
        first = conjunction((f"(< {place} {listing.length})", negation(again)))
        places.append((script.define(first, "Bool"), item))
    return places


def unknown(node: ast.AST) -> UnknownShapeError:
    """Return the error about a node that is not translated."""
    line = getattr(node, "lineno", "?")
    return UnknownShapeError(f"line {line}: {type(node).__name__} {ast.unparse(node)[:80]}")
