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
        return View(x, _named(dtype, ""))
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


def numpy_type(numpy: Any, dtype: int) -> Any:
    """The type of numpy for a number of DTYPES."""
    name, size = _core.dtype_name(dtype), _core.dtype_size(dtype)
    kinds = {"bfloat16": "bfloat16", "float8e4m3": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}
    if name in kinds:
        names = sys.modules.get("ml_dtypes")
        return numpy.dtype(getattr(names, kinds[name]) if names else f"u{size}")
    if name in PAIRS:
        return numpy.dtype([("value", PAIRS[name]), ("index", "i4")], align=True)
    if name.startswith("opaque"):
        return numpy.dtype((numpy.void, size))
    return numpy.dtype(name)


def typed(memory: memoryview, dtype: int) -> Any:
    """Memory as a numpy array if numpy is loaded, else as a memoryview of the type."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return memory.cast(LETTERS.get(dtype, "B"))  # type: ignore[call-overload]
    return numpy.frombuffer(memory, numpy_type(numpy, dtype))


def _named(dtype: Any, what: str) -> int:
    """The number of a type that has a name here."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InvalidArgument(f"{what}{dtype!r} is no type of elements; there are {', '.join(sorted(DTYPES))}")
    return DTYPES[dtype]


def _type_of_module(module: Any, dtype: Any) -> Any:
    """The type of numpy or CuPy for what an application passes as dtype."""
    kind = numpy_type(module, DTYPES[dtype]) if isinstance(dtype, str) and dtype in DTYPES else module.dtype(dtype)
    if kind.hasobject:
        raise InvalidArgument(f"empty: elements of the type {kind} are references, which no other process can follow")
    return kind


def empty(comm: int, shape: tuple[int, ...], dtype: Any, on_device: bool) -> Any:
    """A new array in memory of coll_mem_alloc."""
    if any(n < 0 for n in shape):
        raise InvalidArgument(f"empty: the shape {shape} has a negative number")
    module = sys.modules.get("cupy" if on_device else "numpy")
    kind = _type_of_module(module, dtype) if module else _named(dtype, "empty: ")
    size = _core.dtype_size(kind) if module is None else kind.itemsize
    count = math.prod(shape)
    memory = _core.Memory(comm, count * size, on_device)
    if module is not None and on_device:
        return module.asarray(memory).view(kind).reshape(shape)
    if module is not None:
        return module.ndarray(shape, kind, memory)
    letter = None if on_device else LETTERS.get(kind)
    if letter is None:
        return View(memory, kind)
    return memoryview(memory).cast(letter, shape) if count else memoryview(memory).cast(letter)


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
