"""Element types of arrays, by the names of the safetensors format, with their sizes in bytes."""

SIZES: dict[str, int] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}

FROM_NUMPY: dict[str, str] = {
    "|b1": "BOOL",
    "|u1": "U8",
    "|i1": "I8",
    "<i2": "I16",
    "<u2": "U16",
    "<f2": "F16",
    "<i4": "I32",
    "<u4": "U32",
    "<f4": "F32",
    "<i8": "I64",
    "<u8": "U64",
    "<f8": "F64",
    "<c8": "C64",
}
"""By NumPy's `dtype.str`. Other NumPy types are stored as bytes beside their `dtype.str`."""

TO_NUMPY: dict[str, str] = {ours: numpy for numpy, ours in FROM_NUMPY.items()}


def byte_count(dtype: str, shape: tuple[int, ...]) -> int:
    """Size of an array in bytes.

    >>> byte_count("F32", (10, 3))
    120
    """
    count = SIZES[dtype]
    for extent in shape:
        count *= extent
    return count
