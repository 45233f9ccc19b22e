"""What these tests ask of a program is what it computes."""

from tests.quick_code import quick_code

__all__ = ["quick_code"]
