"""Writes an input for relion_refine: images of a few blobs, turned and noisy, always the same ones.

python make_input.py DIRECTORY: particles.mrcs and particles.star, and reference.mrc, the volume that they are projections
of. Background of mean 0 and deviation 1, as RELION asks for.
"""

import struct
import sys
from pathlib import Path

import numpy as np

COUNT, EDGE, PIXEL = 60, 24, 4.0
BLOBS = ((5.0, 0.0, 0.0, 1.0), (-3.0, 4.0, 1.0, 2.0), (0.0, -4.0, -4.0, 1.5), (1.0, 2.0, 5.0, 1.2))
"""Position and weight, in pixels from the centre."""
TABLES = """
# version 30001

data_optics

loop_
_rlnOpticsGroupName #1
_rlnOpticsGroup #2
_rlnVoltage #3
_rlnSphericalAberration #4
_rlnAmplitudeContrast #5
_rlnImagePixelSize #6
_rlnImageSize #7
_rlnImageDimensionality #8
one 1 300.0 2.7 0.1 {pixel} {edge} 2


# version 30001

data_particles

loop_
_rlnImageName #1
_rlnMicrographName #2
_rlnOpticsGroup #3
"""


def write_images(path: Path, values: np.ndarray, *, is_volume: bool) -> None:
    sections, rows, columns = values.shape
    header = bytearray(1024)
    struct.pack_into("<10i", header, 0, columns, rows, sections, 2, 0, 0, 0, columns, rows, sections)
    struct.pack_into("<6f", header, 40, columns * PIXEL, rows * PIXEL, sections * PIXEL, 90, 90, 90)
    struct.pack_into("<3i3f", header, 64, 1, 2, 3, values.min(), values.max(), values.mean())
    struct.pack_into("<i", header, 88, int(is_volume))
    struct.pack_into("<i", header, 108, 20140)
    header[208:216] = b"MAP \x44\x44\0\0"
    path.write_bytes(bytes(header) + values.astype("<f4").tobytes())


def blobs(points: np.ndarray, axes: tuple[np.ndarray, ...]) -> np.ndarray:
    squares = (sum((axis - at) ** 2 for axis, at in zip(axes, point, strict=False)) for point in points[:, : len(axes)])
    return sum(weight * np.exp(-square / 6) for square, (*_, weight) in zip(squares, BLOBS, strict=True))


def main(place: Path) -> None:
    random = np.random.default_rng(3)
    line = np.arange(EDGE) - EDGE / 2 + 0.5
    points = np.array([blob[:3] for blob in BLOBS])
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    write_images(place / "reference.mrc", blobs(points, (x, y, z)), is_volume=True)
    y, x = np.meshgrid(line, line, indexing="ij")
    images = np.empty((COUNT, EDGE, EDGE))
    for image in images:
        turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
        turn[0] *= np.linalg.det(turn)
        image[:] = blobs(points @ turn.T, (x, y)) + random.normal(0, 0.5, image.shape)
        background = image[np.hypot(x, y) > EDGE / 2 - 2]
        image[:] = (image - background.mean()) / background.std()
    write_images(place / "particles.mrcs", images, is_volume=False)
    rows = "".join(f"{number:06d}@particles.mrcs one.mrc 1\n" for number in range(1, COUNT + 1))
    (place / "particles.star").write_text(TABLES.format(pixel=PIXEL, edge=EDGE) + rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
