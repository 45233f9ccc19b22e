"""Functions whose module is imported by the first call."""

from __future__ import annotations

import copy
import inspect

import pytest

from tvm_disc.support.late import Late


def test_the_function_is_called() -> None:
    shown = Late("tvm_disc.errors:shown")
    assert shown("x") == shown.function()("x") and copy.copy(shown) == shown


def test_its_signature_is_that_of_the_function() -> None:
    from tvm_disc.errors import shown

    assert inspect.signature(Late("tvm_disc.errors:shown")) == inspect.signature(shown)


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'show'"):
        Late("tvm_disc.errors:show")()
    with pytest.raises(AttributeError, match="module_name"):
        _ = Late("tvm_disc.errors:shown").module_name
