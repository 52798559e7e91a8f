"""What kind of file a text is: by what stands in it first, by its name only where that does not tell. Pure."""

import re
from enum import StrEnum

from lastgood.audit.source import Source


class Kind(StrEnum):
    BATCH = "batch script"
    SHELL = "shell script"
    MANIFEST = "Kubernetes manifest"
    PROGRAM = "Python program"
    POLICY = "Slurm configuration"
    BINARY = "binary file"
    OTHER = ""


_DIRECTIVE = re.compile(rb"^(?:#SBATCH\b|#[ \t]*SBATCH[ \t]+-)", re.MULTILINE)
_API_VERSION = re.compile(rb"^[\"']?apiVersion[\"']?[ \t]*:|\A\s*\{[^\0]*?\"apiVersion\"\s*:", re.MULTILINE)
_POLICY = re.compile(
    rb"^[ \t]*(?:PartitionName=\S|Configuration data as of |(?:SlurmctldHost|ControlMachine|ClusterName)[ \t]*=)"
    rb"|^(?:\w+\|)*Name\|[^\n]*\b(?:GraceTime|PreemptMode)\b",
    re.MULTILINE | re.IGNORECASE,
)
_NEAR_THE_TOP = 64 << 10
_SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".slm", ".sb")
_YAML_SUFFIXES = (".yaml", ".yml")


def kind_of(source: Source) -> Kind:
    """
    >>> kind_of(Source("a", b"#!/bin/bash\\n#SBATCH -n 1\\n")), kind_of(Source("b.py", b"import torch\\n"))
    (<Kind.BATCH: 'batch script'>, <Kind.PROGRAM: 'Python program'>)
    """
    name, data = source.path.lower(), source.data
    if b"\0" in data[:_NEAR_THE_TOP]:
        return Kind.BINARY
    program = interpreter(source)
    if name.endswith(_YAML_SUFFIXES):
        return Kind.MANIFEST
    if name.endswith(".py") or program.startswith("python"):
        return Kind.PROGRAM
    if _DIRECTIVE.search(data):
        return Kind.BATCH
    if name.endswith(_SHELL_SUFFIXES) or program:
        return Kind.SHELL
    if _API_VERSION.search(data):
        # In front of the other: a ConfigMap can hold a slurm.conf.
        return Kind.MANIFEST
    if _POLICY.search(data[:_NEAR_THE_TOP]):
        return Kind.POLICY
    return Kind.OTHER


def interpreter(source: Source) -> str:
    """The program that a file's first line names, without directories; empty if none.

    >>> interpreter(Source("x", b"#!/usr/bin/env -S bash -l\\n")), interpreter(Source("x", b"#!/bin/sh\\n"))
    ('bash', 'sh')
    """
    if not source.data.startswith(b"#!"):
        return ""
    words = source.line(1)[2:].split()
    names = [word.rpartition("/")[2] for word in words]
    if names[:1] == ["env"]:
        names = [name for name in names[1:] if not name.startswith("-") and "=" not in name]
    return names[0] if names else ""


_OTHERS = frozenset(
    """
    a bak bin bmp bz2 c cc cfg cif class cpp cu cube cxx csv dat data db dll docx eps err exe f f90 fa fasta fastq gif go gro gz h
    h5 hdf5 hpp html in inp ini ipynb jar java jpeg jpg js json jsonl lib lock log md mdp mp4 nc npy npz o out parquet pdb pdf
    pickle pkl png pt pth py pyc pyi pyx r rst safetensors so svg tar tex tfrecord tgz tif tiff toml tpr trr ts tsv txt vtk vtu wav
    webp xls xlsx xml xtc xyz xz zip zst
    """.split()
)
"""Suffixes of files that are no scripts: a directory of data has millions of them, and they are not opened."""


def is_named_like_one(name: str) -> bool:
    """Whether a file that nobody named is read for its name."""
    return name.lower().endswith((*_SHELL_SUFFIXES, *_YAML_SUFFIXES))


def may_be_one(name: str) -> bool:
    """Whether such a file is opened, to see whether it is one."""
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    return suffix not in _OTHERS and not suffix.isdigit()


def begins_like_one(head: bytes) -> bool:
    """Whether it has `#SBATCH` near its top."""
    return head.startswith(b"#!") and b"\0" not in head and _DIRECTIVE.search(head) is not None
