"""What loading changes in an optimizer: undone where it is torch's doing, and told where it is meant."""

from typing import Any

import torch


def put_as_saved(optimizer: torch.optim.Optimizer, tree: Any, groups_before: list[dict[str, Any]]) -> None:
    """After `tree` was loaded: what is kept for a parameter has the precision that it was saved in, and lies in memory
    as the parameter does; settings that are tensors are on the device of those before."""
    numbers = [number for group in tree["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        _put_state(optimizer.state.get(parameter), tree["state"].get(number), parameter)
    for group, before in zip(optimizer.param_groups, groups_before, strict=True):
        for name, value in group.items():
            if isinstance(value, torch.Tensor) and isinstance(before.get(name), torch.Tensor):
                group[name] = value.to(before[name].device)


def settings_kept(groups: list[dict[str, Any]], saved: list[dict[str, Any]], names: set[str]) -> list[str]:
    """The settings of these names that loading replaces, each once. Tensors are passed over: they have no content yet."""
    lines = {
        f"{name} {before[name]!r} as it was saved, not {group[name]!r}": None
        for group, before in zip(groups, saved, strict=True)
        for name in sorted(names & group.keys() & before.keys())
        if not isinstance(before[name], torch.Tensor) and repr(before[name]) != repr(group[name])
    }
    return list(lines)


def _put_state(state: Any, saved: Any, parameter: torch.Tensor) -> None:
    if not isinstance(state, dict) or not isinstance(saved, dict):
        return
    for name, value in state.items():
        source = saved.get(name)
        # Where a step is counted on a device torch wants another type, and sees to it.
        if name == "step" or not isinstance(value, torch.Tensor) or not isinstance(source, torch.Tensor):
            continue
        if value.dtype != source.dtype:
            value = source.to(value.device)
        if value.shape == parameter.shape and value.stride() != parameter.stride():
            # A fused step goes through the memory of both as if they were laid out alike.
            value = torch.empty_like(parameter.detach(), dtype=value.dtype, device=value.device).copy_(value)
        state[name] = value
