"""All contenders by name. Their modules are imported only where they are used, since each brings its library."""

import importlib

from peers.contender import Contender

_PLACES = {
    "none": "plain:Plain",
    "lastgood": "ours:Lastgood",
    "lastgood-overlap": "ours:LastgoodOverlap",
    "torch-save": "files:TorchSave",
    "torch-save-unchecked": "files:TorchSaveUnchecked",
    "torch-load-mmap": "files:TorchLoadMapped",
    "safetensors": "files:Safetensors",
    "dcp": "dcp:DcpSave",
    "dcp-async-thread": "dcp:DcpAsync",
    "dcp-async-process": "dcp:DcpAsyncProcess",
    "dcp-overlap-thread": "dcp:DcpAsyncStaging",
    "dcp-overlap-process": "dcp:DcpAsyncProcessStaging",
    "torchsnapshot": "libraries:Torchsnapshot",
    "torch-checkpointing": "libraries:TorchCheckpointing",
    "dlrover-memory": "libraries:DlroverMemory",
    "dlrover-disk": "libraries:DlroverDisk",
    "orbax": "orbax:Orbax",
    "none-jax": "orbax:JaxPlain",
}
NAMES = tuple(_PLACES)
OURS = ("lastgood", "lastgood-overlap")


def contender(name: str) -> type[Contender]:
    module, _, kind = _PLACES[name].partition(":")
    found: type[Contender] = getattr(importlib.import_module(f"peers.{module}"), kind)
    return found
