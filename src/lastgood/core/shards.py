"""Which rank writes what. Pure.

An array that is equal on all ranks is written once; the ranks share that work by size.
"""


def assign_owners(shared: dict[str, int], world_size: int) -> dict[str, int]:
    """The rank that writes each shared array, given its size in bytes. Every rank computes the same.

    Largest first, always to the rank with the least so far: within a third of the best possible split
    (Graham, "Bounds on multiprocessing timing anomalies", 1969).

    >>> assign_owners({"a": 30, "b": 20, "c": 10}, 2)
    {'a': 0, 'b': 1, 'c': 1}
    """
    loads = [0] * world_size
    owners = {}
    for name, size in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        rank = loads.index(min(loads))
        owners[name] = rank
        loads[rank] += size
    return owners
