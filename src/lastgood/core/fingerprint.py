"""Comparing the environment of two attempts: what may make the numbers differ. Pure."""


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """One line for each item that differs.

    >>> differences({"numpy": "2.1", "host": "a"}, {"numpy": "2.2", "host": "a"})
    ['numpy: 2.1 -> 2.2']
    """
    return [
        f"{key}: {old.get(key, 'absent')} -> {new.get(key, 'absent')}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]
