# SPDX-License-Identifier: BSD-3-Clause
"""New arrays for results, numbers as arrays of one element, and types that an array cannot say."""
from __future__ import annotations

import array
import math
import sys
from typing import Any, Callable

from . import _core
from ._errors import InvalidArgument

DTYPES: dict[str, int]
OPS: dict[str, int]
KINDS: dict[str, int]
DTYPES, OPS, KINDS = _core.names()
# The names of ml_dtypes and PyTorch, where coll.h has others.
DTYPES.update(float8_e4m3fn=DTYPES["float8e4m3"], float8_e5m2=DTYPES["float8e5m2"])

LETTERS = {DTYPES[name]: letter for name, letter in {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d", "bool": "?"}.items()}
PAIRS = {"float32_int32": "f4", "float64_int32": "f8", "int32_int32": "i4", "int64_int32": "i8"}

View = _core.View


def view(x: Any, dtype: str | int) -> Any:
    """The memory of `x` as elements of another type, for types that `x` cannot say itself.

    `dtype` is a name ("bfloat16", "float8_e4m3fn", "float32_int32"), or a number of bytes: then the elements are opaque,
    as coll_dtype_opaque makes them.

    >>> import coll, array
    >>> x = array.array("H", [0x3f80, 0x4000])              # 1 and 2 as bfloat16
    >>> with coll.init() as comm:
    ...     y = comm.allreduce(coll.view(x, "bfloat16"))
    """
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise InvalidArgument(f"'{dtype}' is no type of elements; there are {', '.join(sorted(DTYPES))}")
        return View(x, DTYPES[dtype])
    return View(x, _core.dtype_opaque(dtype))


def _made(x: Any, shape: tuple[int, ...], zero: bool) -> Any:
    """A new array of the kind and type of `x`."""
    if isinstance(x, View):
        return View(_made(x.object, shape, zero), x.dtype)
    maker = getattr(x, "new_zeros" if zero else "new_empty", None)
    if maker is not None:  # PyTorch
        return maker(shape)
    module = sys.modules.get(type(x).__module__.partition(".")[0])
    maker = getattr(module, "zeros" if zero else "empty", None)
    if maker is not None and hasattr(x, "dtype"):  # numpy, CuPy
        return maker(shape, dtype=x.dtype)
    count = math.prod(shape)
    if isinstance(x, array.array):
        return array.array(x.typecode, bytes(count * x.itemsize))
    if isinstance(x, memoryview):
        return memoryview(bytearray(count * x.itemsize)).cast(x.format)  # type: ignore[call-overload]
    if isinstance(x, (bytes, bytearray)):
        return bytearray(count)
    raise InvalidArgument(f"no new array can be made like a {type(x).__name__}; pass out=")


def _shape(x: Any) -> tuple[int, ...]:
    if isinstance(x, View):
        return _shape(x.object)
    shape = getattr(x, "shape", None)
    if shape is not None:
        return tuple(shape)
    return (len(x),) if hasattr(x, "__len__") else ()


def like(x: Any, zero: bool = False) -> Any:
    """A new array like `x`."""
    return _made(x, _shape(x), zero)


def stacked(x: Any, n: int) -> Any:
    """A new array for `n` arrays like `x`."""
    return _made(x, (n, *_shape(x)), False)


def part(x: Any, n: int, name: str) -> Any:
    """A new array like one of the `n` parts of `x`."""
    shape = _shape(x)
    if shape and shape[0] == n:
        return _made(x, shape[1:], False)
    raise InvalidArgument(f"{name}: x has the shape {shape}, whose first number is not the {n} ranks; reshape x, "
                          "or pass out=")


NUMBERS = (int, float, bool, complex)


def box(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A number as an array of one element, and the function that reads the numbers of such an array."""
    if isinstance(x, bool):
        return memoryview(bytearray([x])).cast("?"), list
    if isinstance(x, complex):
        def pairs(view: Any) -> list[complex]:
            return [complex(*view.object[i:i + 2]) for i in range(0, len(view.object), 2)]
        return View(array.array("d", [x.real, x.imag]), DTYPES["complex128"]), pairs
    return array.array("q" if isinstance(x, int) else "d", [x]), list


def typed(memory: memoryview, dtype: int) -> Any:
    """Memory as a numpy array if numpy is loaded, else as a memoryview of the type."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return memory.cast(LETTERS.get(dtype, "B"))  # type: ignore[call-overload]
    name, size = _core.dtype_name(dtype), _core.dtype_size(dtype)
    kinds = {"bfloat16": "bfloat16", "float8e4m3": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}
    if name in kinds:
        names = sys.modules.get("ml_dtypes")
        kind = getattr(names, kinds[name]) if names else numpy.dtype(f"u{size}")
    elif name in PAIRS:
        kind = numpy.dtype([("value", PAIRS[name]), ("index", "i4")], align=True)
    elif name.startswith("opaque"):
        kind = numpy.dtype((numpy.void, size))
    else:
        kind = numpy.dtype(name)
    return numpy.frombuffer(memory, kind)


def as_memory(values: Any, letter: str) -> Any:
    """A sequence of numbers as memory of elements of the letter."""
    if letter == "?":  # which array.array does not have
        return memoryview(bytes(map(bool, values))).cast("?")
    return array.array(letter, values)


def caller_line() -> int:
    """The line of the program that called this package: libcoll warns once for each such place."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return min(frame.f_lineno, 65535)
