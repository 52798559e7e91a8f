"""Which node this is. Slurm can run several on one host, and their keepers must not be taken for each other."""

import os
from collections.abc import Mapping

import xxhash

_MOST = 40
"""Longer names are shortened: the name of a socket has an end."""


def this_node(environment: Mapping[str, str] = os.environ) -> str:
    """The node's name as Slurm knows it, the same for all processes of a job on the node; empty outside of Slurm.

    >>> this_node({"SLURMD_NODENAME": "n7"}), this_node({})
    ('n7', '')
    """
    return environment.get("SLURMD_NODENAME", "")


def node_tag(node: str) -> str:
    """A node's name as a part of the name of a file or a socket.

    >>> node_tag("n7"), node_tag(""), len(node_tag(300 * "n"))
    ('n7', '', 16)
    """
    return (
        node
        if len(node) <= _MOST and "/" not in node
        else xxhash.xxh3_64_hexdigest(node.encode(errors="surrogateescape"))
    )


def agent_file(node: str) -> str:
    """The file in the directory of heartbeats with which the agent of a node says that it is there, with a keeper."""
    return f"agent-{node_tag(node)}"
