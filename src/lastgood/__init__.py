"""Makes a long job cheap to fail: it is started again and resumes from its last good checkpoint.

The whole public face is here; everything else may move between releases.

    run = lastgood.Run({"model": model, "optimizer": optimizer})
    for step in run.steps(10_000):
        loss = train_step()
        run.log(loss=float(loss))
"""

__version__ = "0.1.0"

# Names are resolved on first use: `import lastgood` must cost nothing in a job's start, and the
# launcher, which imports this package too, must not load NumPy before its command has started.
_WHERE = {
    "Run": "lastgood.runtime.run",
    "Every": "lastgood.core.schedule",
    "Keep": "lastgood.core.retention",
    "ResumableSampler": "lastgood.runtime.sampler",
    "LastgoodError": "lastgood.core.errors",
    "Writing": "lastgood.core.writing",
    "read_log": "lastgood.runtime.values_log",
}

__all__ = ["Every", "Keep", "LastgoodError", "ResumableSampler", "Run", "Writing", "__version__", "read_log"]


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'lastgood' has no attribute {name!r}")
    # `import_module` would load importlib's own helpers; this form does not.
    module = __import__(where, fromlist=[name])
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
