"""Layout of CPython's tuples and NumPy's arrays, which programs read directly."""

from __future__ import annotations

# Byte offsets in an array object, its dtype object, and a tuple; and flag bits.
OBJECT_TYPE, DATA, NDIM, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
DTYPE_ORDER, DTYPE_NUMBER = 26, 28
LENGTH = 16
# Byte offsets in the two words about the interpreter, which callers pass.
ARRAY_TYPE, ITEMS = 0, 8
CONTIGUOUS_AND_ALIGNED = 0x101
NATIVE_ORDERS = (ord("="), ord("|"))
TYPE_NUMBERS = {
    "bool": (0,),
    "int8": (1,),
    "uint8": (2,),
    "int16": (3,),
    "uint16": (4,),
    "int32": (5,),
    "uint32": (6,),
    "int64": (7, 9),
    "uint64": (8, 10),
    "float32": (11,),
    "float64": (12,),
    "float16": (23,),
}
