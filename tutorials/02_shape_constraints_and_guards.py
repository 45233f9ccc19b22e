# %% [markdown]
# # Shape constraints and guards
#
# The compiler proves relations of symbolic dims, such as `n == m`. If it cannot prove a relation
# that the model requires, the program checks the relation in every call. Such a check is a *guard*.
# This tutorial shows the solver, guards, and constraints, which state relations.

# %%
import numpy as np

import tvm_disc
from tvm_disc import relay
from tvm_disc.shape import Solver

# %% [markdown]
# The solver can be used alone. It answers True, False, or None for "not known". A dim may be 0, so
# `n * m == n * s` does not imply `m == s`, and the solver does not cancel `n`.

# %%
solver = Solver()
b, s, n, m = (solver.symbol(name) for name in "bsnm")
print(solver.known_same_elements([b, s, 12, 64], [b * s, 768]))
print(solver.known_eq(n * m, n * s))
solver.assume(m == s, "the user said so")
print(solver.known_eq(n * m, n * s), solver.why(n * m == n * s))
assert solver.known_same_elements([b, s, 12, 64], [b * s, 768])

# %% [markdown]
# Inputs of a concatenation must be equal in all other dims. Here the types do not declare that the
# numbers of rows are equal, so the program compares them on entry. The error names the inputs.

# %%
x = relay.var("x", shape=(relay.Any(), 4), dtype="float32")
y = relay.var("y", shape=(relay.Any(), 4), dtype="float32")
body = relay.concatenate([relay.exp(x), y], axis=1)
exe = tvm_disc.build(relay.Function([x, y], body))
print(exe(np.zeros((2, 4), "float32"), np.ones((2, 4), "float32")).shape)
try:
    exe(np.zeros((2, 4), "float32"), np.ones((3, 4), "float32"))
except tvm_disc.DiscError as error:
    print(type(error).__name__, "-", error)

# %% [markdown]
# Two unknown dims broadcast as in NumPy: they must be equal, or one of them must be 1.

# %%
total = tvm_disc.build(relay.Function([x, y], relay.add(x, y)))
for rows_x, rows_y in ((3, 3), (1, 3), (3, 1)):
    left, right = np.ones((rows_x, 4), "float32"), np.ones((rows_y, 4), "float32")
    np.testing.assert_array_equal(total(left, right), left + right)

# %% [markdown]
# A constraint states a relation that every call satisfies. The program checks it once on entry, and
# the compiler uses it as a fact.

# %%
constrained = tvm_disc.build(relay.Function([x, y], relay.add(x, y)), constraints=["x.0 == y.0"])
print(constrained.explain().split("not fused")[0])
try:
    constrained(np.zeros((1, 4), "float32"), np.ones((3, 4), "float32"))
except tvm_disc.DiscError as error:
    print(type(error).__name__, "-", error)
else:
    raise AssertionError("the constraint was not checked")
