"""Which program a command runs in the end, behind `srun`, `env`, a container and their like. Pure."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from lastgood.audit.batch.words import Word

_SRUN_FLAGS = frozenset(
    """
    --contiguous --disable-status --exact --exclusive --interactive --kill-on-bad-exit --label --multi-prog --nice
    --no-allocate --no-kill --overcommit --overlap --oversubscribe --preserve-env --propagate --pty --quiet --reboot
    --spread-job --unbuffered --use-min-nodes --verbose --whole --wait-all -E -H -I -K -k -l -O -Q -s -u -v -X -Z
    --quit-on-interrupt --immediate --test-only --x11 --compress --bcast --resv-ports --unbuffered --stepmgr
    --container-mount-home --no-container-mount-home --container-remap-root --no-container-remap-root --container-readonly
    --container-writable --container-entrypoint --no-container-entrypoint
    """.split()
)
_WITH_VALUE = {
    "mpirun": """
    -n -np --np -c --n -H --host -host --hostfile -hostfile --machinefile -machinefile -f --map-by -map-by --bind-to -bind-to
    --rank-by -x -ppn --ppn -npernode --npernode -N -wdir -wd --wdir -prefix --prefix --output-filename -iface -hosts
    --timeout -envlist -rmk -launcher -bootstrap --npersocket -npersocket -cpus-per-proc --cpus-per-proc -perhost
    """,
    "mpirun two": "--mca -mca -genv -env --gmca -gmca --tune",
    "env": "-u --unset -C --chdir -S",
    "nice": "-n --adjustment",
    "ionice": "-c -n",
    "timeout": "-s --signal -k --kill-after",
    "time": "-f -o --format --output",
    "exec": "-a",
    "numactl": "-N -m -C -p -i --cpunodebind --membind --physcpubind --interleave --preferred",
    "taskset": "",
    "stdbuf": "-i -o -e",
    "singularity": """
    -B --bind --pwd --cwd --env --env-file -H --home -o --overlay -W --workdir --app --security --network --network-args
    --mount -S --scratch --apply-cgroups --add-caps --drop-caps --dns --docker-username --docker-password --fakeroot-uid
    --hostname --pem-path --fusemount --cpus --memory --cpu-shares --cpuset-cpus --rocm-path
    """,
    "docker": """
    -v --volume -e --env --env-file -w --workdir --gpus --name --user -u --entrypoint --shm-size --ipc --net --network
    --memory -m --cpus --mount -p --publish --device --security-opt --ulimit --runtime --pid --userns --platform -h
    --hostname --cap-add --cap-drop --tmpfs -l --label --restart --stop-signal --stop-timeout --log-driver --add-host
    """,
    "other container": """
    -b --bind -m --mount -e --env --image -V --volume --module --set-env -c --cd --entrypoint -v -w
    """,
    "aprun": "-n -N -d -j -S -sn -ss -cc -b -B -L -p -e -m -r -t",
    "jsrun": "-n -a -c -g -r -d -b -l -p -m -K -E -e -o -k -t -h -M -S -X --nrs --tasks_per_rs --cpu_per_rs --gpu_per_rs",
    "ibrun": "-n -o -np -task-per-node",
    "sudo": "-u -g -C -D -p -h -r -t -U",
    "nsys": """
    -o --output -t --trace -c --capture-range -s --sample --export --backtrace --cuda-memory-usage -x --stop-on-exit -y --delay
    -d --duration -e --env-var -f --force-overwrite -w --show-output --stats -n --inherit-environment --gpu-metrics-device
    """,
    "ncu": """
    -o --export --set --section --metrics -k --kernel-name -c --launch-count -s --launch-skip --target-processes --nvtx-include
    """,
    "strace": "-o -e -s -p -P -E -a -S -u -O -I -b",
    "ltrace": "-o -e -s -p -E -a -S -u -n -l -x",
    "perf": "-e --event -o --output -x -r --repeat -I -F -g --call-graph -D --delay",
    "xvfb-run": "-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s --server-args -w --wait",
    "conda": "-n --name -p --prefix --cwd -e --executable",
    "uv": "--with --extra --group --python -p --project --directory",
    "launcher": """
    --nproc_per_node --nproc-per-node --nnodes --node_rank --node-rank --rdzv_backend --rdzv-backend --rdzv_endpoint
    --rdzv-endpoint --rdzv_id --rdzv-id --rdzv_conf --rdzv-conf --master_addr --master-addr --master_port --master-port
    --max_restarts --max-restarts --monitor_interval --monitor-interval --config_file --num_processes --num_machines
    --machine_rank --main_process_ip --main_process_port --mixed_precision --gpu_ids --num_gpus --num_nodes --hostfile
    --include --exclude --launcher --log_dir --log-dir --role --tee -t -r
    """,
}
_VALUES = {name: frozenset(text.split()) for name, text in _WITH_VALUE.items()}
_MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "ibrun", "jsrun", "aprun")
_CONTAINERS = (
    "singularity",
    "apptainer",
    "docker",
    "podman",
    "podman-hpc",
    "shifter",
    "charliecloud",
    "ch-run",
    "enroot",
)
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_PLAIN = (
    "nohup",
    "command",
    "builtin",
    "setsid",
    "unbuffer",
    "catchsegv",
    "dbus-run-session",
)
_PROFILERS = {"nsys": "profile", "ncu": "", "strace": "", "ltrace": "", "perf": "stat"}
_PYTHON = re.compile(r"(python|pypy)[\d.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Wrapper(msgspec.Struct, frozen=True):
    """A program that runs another one."""

    name: str
    """"srun", "mpirun" (whichever), "container", "conda", "torchrun", "timeout", "exec", "env", ...; "unknown" for variables that
    the script does not set, in front of a program: `$LAUNCHER python train.py`."""
    words: tuple[Word, ...]
    """Itself and its own options."""

    def option(self, *names: str) -> str | None:
        """The value of an option as `--name=V`, `--name V`; "" for a flag; None if it is not given."""
        for i, word in enumerate(self.words[1:], 1):
            head, equals, value = word.text.partition("=")
            if self.name == "srun" and re.match("-[A-Za-z].", head) and head[:2] in names:
                # -n4
                return word.text[2:].removeprefix("=")
            if head in names:
                following = self.words[i + 1].text if i + 1 < len(self.words) else ""
                return value if equals else following if not following.startswith("-") else ""
        return None


class Launch(msgspec.Struct, frozen=True, dict=True):
    """What a command comes to."""

    wrappers: tuple[Wrapper, ...]
    """The outermost first."""
    words: tuple[Word, ...]
    """The program itself and its arguments; empty if only a wrapper is there."""

    @cached_property
    def program(self) -> str:
        """Its name without directories, "python" for each of its versions; empty where it is not literal."""
        if not self.words or not self.words[0].is_literal:
            return ""
        name = self.words[0].text.rpartition("/")[2]
        return "python" if _PYTHON.match(name) else name

    @cached_property
    def python_script(self) -> str:
        """The path of the Python program that it runs, as it is written; empty if it is none."""
        if any(wrapper.name in _LAUNCHERS for wrapper in self.wrappers) and self.words:
            return self.words[0].text
        if self.program != "python":
            return self.words[0].text if self.words and self.words[0].text.endswith(".py") else ""
        at = _past_python_options([word.text for word in self.words])
        text = self.words[at].text if at < len(self.words) else ""
        return text if text.endswith(".py") else ""

    def wrapper(self, name: str) -> Wrapper | None:
        return next((wrapper for wrapper in self.wrappers if wrapper.name == name), None)

    def has_argument(self, *texts: str) -> bool:
        """True if the program is given one of these, alone or with `=value`."""
        return any(word.text.partition("=")[0] in texts for word in self.words[1:])

    def argument(self, *names: str) -> Word | None:
        """The word that gives the value of the program's option: behind it, or itself with `=`."""
        for word, following in zip(self.words[1:], [*self.words[2:], None], strict=False):
            if word.text in names:
                return following
            if word.text.partition("=")[0] in names and "=" in word.text:
                return word
        return None


def launch_of(words: Sequence[Word]) -> Launch:
    """Take off one wrapper after another."""
    wrappers: list[Wrapper] = []
    rest = list(words)
    for _ in range(12):
        taken = _wrapper(rest) or _unknown(rest)
        if taken is None:
            break
        name, count = taken
        wrappers.append(Wrapper(name, tuple(rest[:count])))
        rest = rest[count:]
    return Launch(tuple(wrappers), tuple(rest))


def _unknown(words: Sequence[Word]) -> tuple[str, int] | None:
    """Variables with options or another wrapper in them, in front of what is surely a program."""
    i = 0
    while i < len(words) and words[i].variables and len(words[i].parts) == 1:
        i += 1
    if not 0 < i < len(words) or not words[i].is_literal:
        return None
    name = words[i].text.rpartition("/")[2]
    return ("unknown", i) if _PYTHON.match(name) or _wrapper(words[i:]) is not None else None


def _wrapper(words: Sequence[Word]) -> tuple[str, int] | None:
    """(name, how many words are its own) if the first word is a wrapper."""
    if not words or not words[0].is_literal:
        return None
    texts = [word.text for word in words]
    name = texts[0].rpartition("/")[2]
    take: Callable[[list[str]], int] | None = None
    if name == "srun":
        take = _srun
    elif name in _MPIRUN:
        name, take = "mpirun", _mpirun
    elif name in _CONTAINERS:
        take, name = _container, "container"
    elif name in _LAUNCHERS:
        take = _launcher
    elif name in ("conda", "mamba", "micromamba") and "run" in texts[1:3]:
        name, take = "conda", lambda t: _past_options(t, "conda", t.index("run") + 1)
    elif name in ("uv", "poetry", "pipenv", "pdm", "pixi") and texts[1:2] == ["run"]:
        name, take = "uv", lambda t: _past_options(t, "uv", 2)
    elif name == "env":
        take = _env
    elif name in ("timeout", "taskset"):
        take = lambda t: _past_options(t, t[0].rpartition("/")[2], 1) + 1  # noqa: E731 - one of a table
    elif name == "command" and texts[1:2] in (["-v"], ["-V"]):
        return None
    elif name in ("nice", "ionice", "time", "exec", "numactl", "stdbuf", "xvfb-run", "sudo"):
        take = lambda t: _past_options(t, t[0].rpartition("/")[2], 1)  # noqa: E731 - one of a table
    elif name in _PLAIN:
        take = lambda t: _past_options(t, "", 1)  # noqa: E731 - one of a table
    elif name == "lastgood" and texts[1:2] == ["run"]:
        take = _lastgood
    elif name in _PROFILERS and (not _PROFILERS[name] or texts[1:2] == [_PROFILERS[name]]):
        take = lambda t: _past_options(t, name, 1 + bool(_PROFILERS[name]))  # noqa: E731 - one of a table
    elif _PYTHON.match(name):
        return _python_launcher(texts)
    if take is None:
        return None
    return name, min(take(texts), len(words))


def _python_launcher(texts: list[str]) -> tuple[str, int] | None:
    """`python -m torch.distributed.run` and its like."""
    at = _past_python_options(texts)
    module = texts[at + 1] if texts[at : at + 1] == ["-m"] and at + 1 < len(texts) else ""
    name = "torchrun" if module in _TORCHRUN else "accelerate" if module == "accelerate.commands.launch" else ""
    return (name, _launched(texts, at + 2)) if name else None


def _past_python_options(texts: list[str]) -> int:
    """Where the program's own words begin: its path, `-m`, `-c` or `-`."""
    i = 1
    while i < len(texts) and texts[i].startswith("-") and texts[i] not in ("-m", "-c", "-"):
        i += 2 if texts[i] in ("-W", "-X") else 1
    return i


def _past_options(texts: list[str], table: str, begin: int) -> int:
    """The first word from `begin` on that is no option and no value of one."""
    values = _VALUES.get(table, frozenset())
    i = begin
    while i < len(texts) and texts[i].startswith("-") and texts[i] != "-":
        if texts[i] == "--":
            return i + 1
        i += 2 if texts[i] in values else 1
    return i


def _srun(texts: list[str]) -> int:
    i = 1
    while i < len(texts) and texts[i].startswith("-"):
        word = texts[i]
        if word == "--":
            return i + 1
        takes_next = "=" not in word and word not in _SRUN_FLAGS and (word.startswith("--") or len(word) == 2)
        i += 2 if takes_next else 1
    return i


def _mpirun(texts: list[str]) -> int:
    name = texts[0].rpartition("/")[2]
    if name in ("aprun", "jsrun", "ibrun"):
        return _past_options(texts, name, 1)
    i = 1
    while i < len(texts) and texts[i].startswith("-"):
        i += 3 if texts[i] in _VALUES["mpirun two"] else 2 if texts[i] in _VALUES["mpirun"] else 1
    return i


def _env(texts: list[str]) -> int:
    i = _past_options(texts, "env", 1)
    while i < len(texts) and _ASSIGNMENT.match(texts[i]):
        i += 1
    return i


def _container(texts: list[str]) -> int:
    """Up to behind the image."""
    name = texts[0].rpartition("/")[2]
    table = _CONTAINER_TABLES.get(name, "other container")
    i = _past_options(texts, table, 1)
    if texts[i : i + 1] and texts[i] in ("exec", "run", "shell", "start", "instance"):
        i = _past_options(texts, table, i + 1)
    # shifter names its image by an option; charliecloud has `--` behind it.
    i += name != "shifter"
    return i + (texts[i : i + 1] == ["--"])


_CONTAINER_TABLES = {
    "singularity": "singularity",
    "apptainer": "singularity",
    "docker": "docker",
    "podman": "docker",
    "podman-hpc": "docker",
}


def _launcher(texts: list[str]) -> int:
    return _launched(texts, 2 if texts[1:2] == ["launch"] else 1)


def _launched(texts: list[str], begin: int) -> int:
    """The first Python file, or what stands behind the launcher's options."""
    i = _past_options(texts, "launcher", begin)
    scripts = [j for j, text in enumerate(texts) if j >= begin and text.endswith(".py")]
    return scripts[0] if scripts else i


def _lastgood(texts: list[str]) -> int:
    return texts.index("--") + 1 if "--" in texts else len(texts)
