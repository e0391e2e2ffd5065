"""The evaluator's statements, run once over symbolic values: `Run.__init__` and `Run.decide`.

Theory of operation: a *guard* is the condition under which a place is reached. Both branches of an
`if` are run and joined; a `raise` ends its branch and leaves an *exit*, with the variables as they
were. The loop over the steps is unrolled for the steps that are given, and `finally` is run on the
exits too, as Python does. The call of `Run._end` leaves an *ending* with the rules that fired, and
sets the terminal to the first row of the release's table that fired, which is what `_end` does;
that it does so is not assumed but exhausted, in `loopcore.verification.proofs.finite`.

Source: the text of `loopcore/evaluator.py`, whatever it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from loopcore.verification.proofs.subject import Subject
from loopcore.verification.proofs.terms import (
    FALSE,
    NONE,
    TRUE,
    Collection,
    Flag,
    Listing,
    Named,
    Number,
    Row,
    Script,
    SetMethod,
    UnknownShapeError,
    Value,
    choose,
    conjunction,
    disjunction,
    negation,
    total,
)
from loopcore.verification.proofs.translation import (
    Environment,
    Expressions,
    first_places,
    unknown,
)
from loopcore.verification.proofs.unknowns import PROOF


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A `raise`: when, on which step, and the variables as `finally` left them."""

    guard: str
    step: str
    code: str
    index: str
    env: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A call of `Run._end`: when, on which step, and what fired."""

    guard: str
    step: str
    fired: Mapping[str, str]


@dataclass(slots=True)
class Execution:
    """A symbolic run of one evaluator over unknown steps."""

    subject: Subject
    script: Script
    release: str
    exits: list[Exit] = field(default_factory=list[Exit])
    endings: list[Ending] = field(default_factory=list[Ending])
    expressions: Expressions = field(init=False)
    _methods: dict[str, ast.FunctionDef] = field(init=False)
    _steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tree = ast.parse(self.subject.source)
        functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
        runs = [e for e in tree.body if isinstance(e, ast.ClassDef) and e.name == "Run"]
        if len(runs) != 1:
            raise UnknownShapeError("there is no one class Run")
        self._methods = {e.name: e for e in runs[0].body if isinstance(e, ast.FunctionDef)}
        names = self.subject.names()
        self.expressions = Expressions(script=self.script, module=names, functions=functions)

    def start(self, env: Environment) -> Environment:
        """Return the variables with the attributes that `Run.__init__` gives a new run."""
        env = {**env, "self": Named("self"), "policy": Named("policy")}
        env, _ = self._block(self._method("__init__").body, env, TRUE)
        return {name: value for name, value in env.items() if name not in ("self", "policy")}

    def decide(self, env: Environment, steps: tuple[str, ...]) -> tuple[Environment, str]:
        """Return the attributes after `Run.decide`, and when it comes to its end.

        Arguments:
            env: the attributes of the run, the policy and the steps, by names such as
                `self._calls`; steps: the names of the steps that are taken.
        """
        self._steps = steps
        env = {
            **env,
            "self": Named("self"),
            "self.policy": Named("policy"),
            "self._refusal": Named("refusal"),
            "new_steps": Named("new steps"),
        }
        return self._block(self._method("decide").body, env, TRUE)

    def _method(self, name: str) -> ast.FunctionDef:
        if name not in self._methods:
            raise UnknownShapeError(f"there is no method Run.{name}")
        return self._methods[name]

    def _block(self, body: list[ast.stmt], env: Environment, guard: str) -> tuple[Environment, str]:
        """Run statements; a guard that is false means that their end is never reached."""
        env = dict(env)
        for statement in body:
            if guard == FALSE:
                raise UnknownShapeError(f"line {statement.lineno} is never reached")
            env, guard = self._statement(statement, env, guard)
        return env, guard

    def _statement(self, node: ast.stmt, env: Environment, guard: str) -> tuple[Environment, str]:
        match node:
            case ast.Expr(value=ast.Constant()):
                return env, guard
            case ast.Assign(targets=[target], value=ast.Call() as call) if _is_end(call):
                self._assign(target, self._end(call, env, guard), env)
            case ast.Expr(value=ast.Call() as call) if _is_end(call):
                self._end(call, env, guard)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.expressions.value(value, env, guard), env)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.expressions.value(value, env, guard), env)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                added = ast.BinOp(left=ast.Name(id=name), op=operator, right=value)
                ast.copy_location(added, node)
                env[name] = self._kept(self.expressions.value(added, env, guard))
            case ast.Expr(value=ast.Call(func=method, args=[argument], keywords=[])):
                self._join(method, argument, env, guard)
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(test, body, orelse, env, guard)
            case ast.Raise(exc=ast.Call(func=function, args=arguments)):
                self._raise(function, arguments, env, guard)
                return env, FALSE
            case ast.For(target=ast.Name(id=name), iter=iterated, body=body, orelse=[]):
                return self._loop(name, iterated, body, env, guard)
            case ast.Try(body=body, handlers=[], orelse=[], finalbody=final):
                return self._try(body, final, env, guard)
            case _:
                raise unknown(node)
        return env, guard

    def _assign(self, target: ast.expr, value: Value, env: Environment) -> None:
        match target, value:
            case ast.Name(id=name), _:
                env[name] = self._kept(value)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute), _:
                base = env.get(owner)
                if not isinstance(base, Named):
                    raise unknown(target)
                env[f"{base.name}.{attribute}"] = self._kept(value)
            case ast.Tuple(elts=targets), Row(items) if len(targets) == len(items):
                for each, item in zip(targets, items, strict=True):
                    self._assign(each, item, env)
            case _:
                raise unknown(target)

    def _kept(self, value: Value) -> Value:
        """Return a value whose terms have names, so that using it often stays short."""
        match value:
            case Number(term, meaning, nullable):
                return Number(self.script.define(term, "Int"), meaning, nullable)
            case Flag(term):
                return Flag(self.script.define(term, "Bool"))
            case Row(items):
                return Row(tuple(self._kept(item) for item in items))
            case _:
                return value

    def _branch(
        self,
        test: ast.expr,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        env: Environment,
        guard: str,
    ) -> tuple[Environment, str]:
        condition = self.script.define(self.expressions.truth(test, env, guard), "Bool")
        inside = self.script.define(conjunction((guard, condition)), "Bool")
        outside = self.script.define(conjunction((guard, negation(condition))), "Bool")
        then, then_guard = self._block(body, env, inside)
        otherwise, otherwise_guard = self._block(orelse, env, outside)
        if then_guard == FALSE:
            return otherwise, otherwise_guard
        if otherwise_guard == FALSE:
            return then, then_guard
        merged = self._merged(condition, then, otherwise)
        if (then_guard, otherwise_guard) == (inside, outside):
            return merged, guard
        return merged, self.script.define(disjunction((then_guard, otherwise_guard)), "Bool")

    def _try(
        self, body: list[ast.stmt], final: list[ast.stmt], env: Environment, guard: str
    ) -> tuple[Environment, str]:
        before = len(self.exits)
        env, guard = self._block(body, env, guard)
        for place in range(before, len(self.exits)):
            left = self.exits[place]
            stored, _ = self._block(final, left.env, left.guard)
            self.exits[place] = replace(left, env=stored)
        env, _ = self._block(final, env, guard)
        return env, guard

    def _raise(
        self, function: ast.expr, arguments: list[ast.expr], env: Environment, guard: str
    ) -> None:
        raised = self.expressions.value(function, env, guard)
        match raised, arguments:
            case Named("refusal"), [ast.Constant(value=str(code)), index]:
                found = self.expressions.value(index, env, guard)
                if not isinstance(found, Number):
                    raise unknown(index)
                left = Exit(
                    guard=guard, step=_step(env), code=code, index=found.term, env=dict(env)
                )
                self.exits.append(left)
            case _:
                raise unknown(function)

    def _loop(
        self, name: str, iterated: ast.expr, body: list[ast.stmt], env: Environment, guard: str
    ) -> tuple[Environment, str]:
        over = self.expressions.value(iterated, env, guard)
        if over == Named("new steps"):
            for step in self._steps:
                env, guard = self._block(body, {**env, name: Named(step)}, guard)
        elif isinstance(over, Listing):
            for place, item in enumerate(over.items):
                here = self.script.define(f"(< {place} {over.length})", "Bool")
                turn = {**env, name: Number(item, "digest")}
                inside = self.script.define(conjunction((guard, here)), "Bool")
                then, after = self._block(body, turn, inside)
                if after != inside:
                    raise unknown(iterated)
                env = self._merged(here, then, turn)
        else:
            raise unknown(iterated)
        env.pop(name, None)
        return env, guard

    def _merged(self, condition: str, then: Environment, otherwise: Environment) -> Environment:
        """Return the variables that both branches have."""
        return {
            name: self.expressions.merge(condition, then[name], otherwise[name])
            for name in then
            if name in otherwise
        }

    def _join(self, method: ast.expr, argument: ast.expr, env: Environment, guard: str) -> None:
        """Put a digest or a step's evidence into a set."""
        called = self.expressions.value(method, env, guard)
        joined = self.expressions.value(argument, env, guard)
        if not isinstance(called, SetMethod):
            raise unknown(method)
        held = env[called.reference.key]
        assert isinstance(held, Collection)
        match called.method, joined:
            case "add", Number(item, "digest", False):
                added = [(TRUE, item)]
            case "update", Listing() as listing:
                added = first_places(self.script, listing)
            case _:
                raise unknown(argument)
        array, new = held.array, list[str]()
        for is_there, item in added:
            fresh = conjunction((is_there, negation(f"(select {held.array} {item})")))
            new.append(choose(self.script.define(fresh, "Bool"), "1", "0"))
            array = choose(is_there, f"(store {array} {item} true)", array)
            array = self.script.define(array, "(Array Int Bool)")
        size = self.script.define(total([held.size, *new]), "Int")
        env[called.reference.key] = Collection(array, size)

    def _end(self, call: ast.Call, env: Environment, guard: str) -> Number:
        """Return the terminal that the release's table gives to the rules that fired."""
        items, proof = [self.expressions.value(each, env, guard) for each in call.args]
        if not isinstance(items, Row) or proof != env[f"{_step(env)}.{PROOF}"]:
            raise unknown(call)
        rules: object = self.expressions.module["_RULES"]
        tables: object = self.expressions.module["PRECEDENCE"]
        terms = [item.term for item in items.items if isinstance(item, Flag)]
        if not isinstance(rules, tuple) or not isinstance(tables, dict):
            raise UnknownShapeError("the tables _RULES and PRECEDENCE")
        names = [str(name) for name in cast("tuple[object, ...]", rules)]
        rows = cast("dict[str, tuple[str, ...]]", tables)[self.release]
        if not len(names) == len(items.items) == len(terms):
            raise UnknownShapeError("the rules that fired are not the rules of _RULES")
        fired = dict(zip(names, terms, strict=True))
        self.endings.append(Ending(guard=guard, step=_step(env), fired=fired))
        winner = NONE
        table = [str(name) for name in rows if name in fired]
        for name in reversed(table):
            winner = choose(fired[name], self.script.code(name), winner)
        nothing = negation(disjunction(fired[name] for name in table))
        self.expressions.faults.append((conjunction((guard, nothing)), "no rule of the table"))
        terminal = Number(self.script.define(winner, "Int"), "name", True)
        env["self.terminal"] = terminal
        return terminal


def _step(env: Environment) -> str:
    """Return the name of the step that the loop is at."""
    step = env.get("step")
    if not isinstance(step, Named):
        raise UnknownShapeError("the loop's variable is not called step")
    return step.name


def _is_end(call: ast.Call) -> bool:
    """Return whether a call is `self._end(fired, proof)`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self"), attr="_end"), args=[_, _], keywords=[]
        ):
            return True
        case _:
            return False
