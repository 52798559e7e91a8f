"""Which of a program's loops do the work, and what runs inside them. Pure."""

import ast
import re
from functools import cached_property

from lastgood.audit.python.tree import Function, Loop, Tree, last, written

_OPTIMIZER = re.compile(r"optim|(?:^|_)opt|adam|sgd|trainer_[dg]\b", re.IGNORECASE)
_STEPS = frozenset({"backward", "train_on_batch", "apply_gradients", "manual_backward"})
_MOST_FUNCTIONS = 100
"""Callers of callers that are looked at."""
_LOADERS = re.compile(r"loader|batches|dataset|_iter$|_dl$|dataloader", re.IGNORECASE)


class Flow:
    """Loops that train: those in which a step is done, in their own lines or in a function of this file."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    @cached_property
    def steps(self) -> list[ast.Call]:
        """Calls that are a part of a training step."""
        return [call for call in self._tree.calls if self._is_step(call)]

    @cached_property
    def training_loops(self) -> set[Loop]:
        found: set[Loop] = set()
        seen: set[ast.AST] = set()
        pending: list[ast.AST] = list(self.steps)
        while pending:
            node = pending.pop()
            for outer in self._tree.above(node):
                if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
                    found.add(outer)
                elif isinstance(outer, Function):
                    if outer not in seen:
                        seen.add(outer)
                        pending += self._tree.callers_of(outer)
                    break
        return found

    @cached_property
    def has_training(self) -> bool:
        return bool(self.training_loops)

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """Loops that a node runs in, the innermost first, also through calls of functions in this file."""
        found: list[Loop] = []
        seen: set[ast.AST] = set()
        pending: list[ast.AST] = [node]
        while pending and len(seen) < _MOST_FUNCTIONS:
            for outer in self._tree.above(pending.pop()):
                if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
                    if outer not in found:
                        found.append(outer)
                elif isinstance(outer, Function):
                    if outer not in seen:
                        seen.add(outer)
                        pending += self._tree.callers_of(outer)
                    break
        return found

    def is_in_training(self, node: ast.AST) -> bool:
        for outer in self._tree.above(node):
            if outer in self.training_loops:
                return True
            if isinstance(outer, Function):
                return outer in self._called_in_training
        return False

    @cached_property
    def _called_in_training(self) -> set[Function]:
        """Functions that a training loop calls, itself or through others."""
        return set(self._tree.own_functions_called(*self.training_loops))

    def tests_around(self, node: ast.AST) -> list[ast.expr]:
        """Conditions under which a node runs, also those around the calls of its function."""
        found: list[ast.expr] = []
        seen: set[ast.AST] = set()
        pending: list[ast.AST] = [node]
        while pending and len(seen) < _MOST_FUNCTIONS:
            for outer in self._tree.above(pending.pop()):
                if isinstance(outer, ast.If | ast.IfExp):
                    if "__name__" not in written(outer.test):
                        found.append(outer.test)
                elif isinstance(outer, Function):
                    if outer not in seen:
                        seen.add(outer)
                        pending += self._tree.callers_of(outer)
                    break
        return found

    def ends_behind(self, node: ast.expr) -> bool:
        """The loop, or the program, is left behind it in the same block."""
        statement: ast.AST = node
        for above in self._tree.above(node):
            if isinstance(above, ast.For | ast.While | Function | ast.Module):
                return False
            for block in (getattr(above, "body", None), getattr(above, "orelse", None)):
                if isinstance(block, list) and statement in block:
                    return any(self._leaves(other) for other in block[block.index(statement) + 1 :])
            statement = above
        return False

    def _leaves(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Break | ast.Return):
            return True
        value = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(value, ast.Call) and self._tree.name_of(value.func) in (
            "exit",
            "quit",
            "sys.exit",
            "os._exit",
        )

    def is_over_loader(self, loop: Loop) -> bool:
        """Its turns are batches."""
        return isinstance(loop, ast.For | ast.AsyncFor) and any(
            _LOADERS.search(last(self._tree.name_of(inner)))
            for inner in ast.walk(loop.iter)
            if isinstance(inner, ast.Name | ast.Attribute)
        )

    def comes_before(self, node: ast.expr, repeated: ast.expr) -> bool:
        """It is done once, before the loops in which another thing is done again and again."""
        loops = self.loops_around(repeated)
        if self.loops_around(node) or not loops:
            return False
        if self.has_training:
            return self.comes_before_training(node)
        function = self._tree.function_of(node)
        places = [node] if function is None else [node, *self._tree.callers_of(function)]
        return any(
            self._tree.function_of(place) is self._tree.function_of(loop) and place.lineno < loop.lineno
            for place in places
            for loop in loops
        )

    def comes_before_training(self, node: ast.stmt | ast.expr) -> bool:
        """It stands above the loops that train, or in a function that is called above them."""
        first = min((loop.lineno for loop in self.training_loops), default=0)
        function = self._tree.function_of(node)
        if function is None:
            return node.lineno < first
        here = [loop.lineno for loop in self.training_loops if self._tree.function_of(loop) is function]
        if here:
            return node.lineno < min(here)
        calls = self._tree.callers_of(function)
        return any(call is not node and self._is_above(call) for call in calls)

    def _is_above(self, call: ast.Call) -> bool:
        function = self._tree.function_of(call)
        here = [loop.lineno for loop in self.training_loops if self._tree.function_of(loop) is function]
        return not here or call.lineno < min(here)

    def _is_step(self, call: ast.Call) -> bool:
        name = self._tree.name_of(call.func)
        receiver, _, method = name.rpartition(".")
        if not receiver:
            return False
        if method in _STEPS:
            return True
        if method == "step":
            return bool(_OPTIMIZER.search(last(receiver))) or "scaler" in receiver
        return name.endswith(("optax.apply_updates", "jax.value_and_grad"))
