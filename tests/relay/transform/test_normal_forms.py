"""Normal forms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check
from tvm_disc import relay

CASES = {
    "B0": (
        [relay.transform.ToBasicBlockNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = add(%x, %x); let "
            "%b = (%a, exp(%x)); let %d = %a; if (%c) { exp(%a) } else { %b.0 } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = add(%x, %x); %0 = "
            "exp(%x); let %b = (%a, %0); let %d = %a; if (%c) { exp(%a) } else { %b.0 } }"
        ),
    ),
    "A1": (
        [relay.transform.ToANormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { %0 = exp(%x); %1 = add(%0, "
            "1f); if (%c) { add(%0, %1) } else { %1 } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %x_0 = exp(%x); let "
            "%x_1 = 1f; let %x_2 = add(%x_0, %x_1); let %x_4 = if (%c) { let %x_3 = "
            "add(%x_0, %x_2); %x_3 } else { %x_2 }; %x_4 }"
        ),
    ),
    "B1": (
        [relay.transform.ToBasicBlockNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { %0 = exp(%x); %1 = add(%0, "
            "1f); if (%c) { add(%0, %1) } else { %1 } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %z = exp(%x); let %x_0 = "
            "add(%z, 1f); if (%c) { add(%z, %x_0) } else { %x_0 } }"
        ),
    ),
    "A2": (
        [relay.transform.ToANormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { %0 = exp(%x); if (%c) { "
            "add(%0, 1f) } else { %x } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %x_3 = if (%c) { let "
            "%x_0 = exp(%x); let %x_1 = 1f; let %x_2 = add(%x_0, %x_1); %x_2 } else { %x "
            "}; %x_3 }"
        ),
    ),
    "B2": (
        [relay.transform.ToBasicBlockNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { %0 = exp(%x); if (%c) { "
            "add(%0, 1f) } else { %x } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { if (%c) { %0 = exp(%x); "
            "add(%0, 1f) } else { %x } }"
        ),
    ),
    "AG2": (
        [relay.transform.ToANormalForm(), relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { %0 = exp(%x); if (%c) { "
            "add(%0, 1f) } else { %x } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { if (%c) { %0 = exp(%x); "
            "add(%0, 1f) } else { %x } }"
        ),
    ),
    "A3": (
        [relay.transform.ToANormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; add(%1(%x), exp(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %x_2 = fn (%y: Tensor[(2), "
            "float32]) { let %x_0 = exp(%x); let %x_1 = add(%y, %x_0); %x_1 }; let %x_3 "
            "= %x_2(%x); let %x_4 = exp(%x); let %x_5 = add(%x_3, %x_4); %x_5 }"
        ),
    ),
    "B3": (
        [relay.transform.ToBasicBlockNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; add(%1(%x), exp(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; %2 = %1(%x); %3 = exp(%x); add(%2, %3) }"
        ),
    ),
    "G3": (
        [relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; add(%1(%x), exp(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; %2 = %1(%x); %3 = exp(%x); add(%2, %3) }"
        ),
    ),
    "AG3": (
        [relay.transform.ToANormalForm(), relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; add(%1(%x), exp(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: Tensor[(2), float32]) { "
            "%0 = exp(%x); add(%y, %0) }; %2 = %1(%x); %3 = exp(%x); add(%2, %3) }"
        ),
    ),
    "A4": (
        [relay.transform.ToANormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(add(%y, 1f)) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { let %x_0 = 1f; let %x_1 = add(%y, "
            "%x_0); let %x_2 = %f(%x_1); %x_2 }; let %x_3 = %f(%x); %x_3 }"
        ),
    ),
    "B4": (
        [relay.transform.ToBasicBlockNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(add(%y, 1f)) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %0 = add(%y, 1f); %f(%0) }; %f(%x) }"
        ),
    ),
    "G4": (
        [relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(add(%y, 1f)) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %0 = add(%y, 1f); %f(%0) }; %f(%x) }"
        ),
    ),
    "AG4": (
        [relay.transform.ToANormalForm(), relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(add(%y, 1f)) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %0 = add(%y, 1f); %f(%0) }; %f(%x) }"
        ),
    ),
    "A5": (
        [relay.transform.ToANormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); add(multiply(%0, %x), %0) }",
        (
            "def @main(%x: Tensor[(2), float32]) { let %x_0 = exp(%x); let %x_1 = "
            "multiply(%x_0, %x); let %x_2 = add(%x_1, %x_0); %x_2 }"
        ),
    ),
    "B5": (
        [relay.transform.ToBasicBlockNormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); add(multiply(%0, %x), %0) }",
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = multiply(%0, %x); "
            "add(%1, %0) }"
        ),
    ),
    "G5": (
        [relay.transform.ToGraphNormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); add(multiply(%0, %x), %0) }",
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = multiply(%0, %x); "
            "add(%1, %0) }"
        ),
    ),
    "AG5": (
        [relay.transform.ToANormalForm(), relay.transform.ToGraphNormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); add(multiply(%0, %x), %0) }",
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = multiply(%0, %x); "
            "add(%1, %0) }"
        ),
    ),
    "A6": (
        [relay.transform.ToANormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); let %a = %0; add(%a, %0) }",
        (
            "def @main(%x: Tensor[(2), float32]) { let %x_0 = exp(%x); let %a = %x_0; "
            "let %x_1 = add(%a, %x_0); %x_1 }"
        ),
    ),
    "B6": (
        [relay.transform.ToBasicBlockNormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); let %a = %0; add(%a, %0) }",
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); let %a = %0; add(%a, %0) }",
    ),
    "G6": (
        [relay.transform.ToGraphNormalForm()],
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); let %a = %0; add(%a, %0) }",
        "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); add(%0, %0) }",
    ),
    "Gr": (
        [relay.transform.ToGraphNormalForm()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); let %u = "
            "ref_write(%r, exp(%x)); ref_read(%r) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); %0 = exp(%x); let "
            "%u = ref_write(%r, %0); ref_read(%r) }"
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)
