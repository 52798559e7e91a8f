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
_API_VERSION = re.compile(rb"^[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
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
    if _POLICY.search(data[:_NEAR_THE_TOP]):
        return Kind.POLICY
    if _API_VERSION.search(data):
        return Kind.MANIFEST
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


def may_be_worth_reading(name: str, head: bytes) -> bool:
    """Whether a file that nobody named is looked at: by its name, or by `#SBATCH` near its top."""
    lowered = name.lower()
    if lowered.endswith((*_SHELL_SUFFIXES, *_YAML_SUFFIXES)):
        return True
    return head.startswith(b"#!") and b"\0" not in head and _DIRECTIVE.search(head) is not None
