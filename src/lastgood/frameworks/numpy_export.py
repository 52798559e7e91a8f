"""Exporting a checkpoint to NumPy's .npz."""

import os
import zipfile
from typing import Any, cast

import numpy as np

from lastgood.core.dtypes import TO_NUMPY
from lastgood.core.errors import UnstorableError
from lastgood.frameworks.numpy_adapter import FRAMEWORK
from lastgood.store.durable import NewFile
from lastgood.store.export import Export, Source


def write_npz(export: Export, new: NewFile) -> list[str]:
    """Write the arrays so that `numpy.load(path, allow_pickle=False)` gives them by name.

    Raises UnstorableError for a type that NumPy does not have.
    """
    for name, source in export.arrays.items():
        if source.spec.dtype not in TO_NUMPY:
            raise UnstorableError(
                f"{name}: NumPy has no type for {source.spec.dtype}",
                safe="nothing was written",
                remedy="export to .safetensors or .pt instead, or leave that entry out with --entry",
            )
    data = export.read()
    # A file descriptor, so that the archive is written straight into the file that will get the name.
    with os.fdopen(os.dup(new.fileno()), "wb") as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, source in export.arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, numpy_array(source, data[name]), allow_pickle=False)
    return []


def numpy_array(source: Source, data: memoryview) -> np.ndarray[Any, Any]:
    """An array over `data`, whatever library it came from. Raises KeyError for a type that NumPy lacks."""
    if source.kind == "numpy":
        return cast("np.ndarray[Any, Any]", FRAMEWORK.from_buffer(source.spec, source.tag, data))
    array = np.frombuffer(data, np.dtype(TO_NUMPY[source.spec.dtype])).reshape(source.spec.shape)
    return array.view(np.complex128)[..., 0] if source.tag.get("complex") else array
