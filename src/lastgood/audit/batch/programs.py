"""Which program a command runs in the end, behind `srun`, `env`, a container and their like. Pure."""

import re
from collections.abc import Callable, Sequence

import msgspec

from lastgood.audit.batch.words import Word

_SRUN_FLAGS = frozenset(
    """
    --contiguous --disable-status --exact --exclusive --interactive --kill-on-bad-exit --label --multi-prog --nice
    --no-allocate --no-kill --overcommit --overlap --oversubscribe --preserve-env --propagate --pty --quiet --reboot
    --spread-job --unbuffered --use-min-nodes --verbose --whole --wait-all -E -H -I -K -k -l -O -Q -s -u -v -X -Z
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
    "container": """
    -B --bind -b --pwd --env --env-file -H --home --overlay -W --workdir --app --security --network --mount -o --scratch -S
    -v --volume -e -w --workdir --gpus --name --user -u --entrypoint --shm-size --ipc --net --memory -m --cpus --image -V
    """,
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
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_PLAIN = (
    "nohup",
    "command",
    "builtin",
    "setsid",
    "unbuffer",
    "catchsegv",
    "strace",
    "ltrace",
    "sudo",
    "dbus-run-session",
)
_PYTHON = re.compile(r"(python|pypy)[\d.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Wrapper(msgspec.Struct, frozen=True):
    """A program that runs another one."""

    name: str
    """"srun", "mpirun" (whichever), "container", "conda", "torchrun", "timeout", "exec", "env", ..."""
    words: tuple[Word, ...]
    """Itself and its own options."""

    def option(self, *names: str) -> str | None:
        """The value of an option as `--name=V`, `--name V`; "" for a flag; None if it is not given."""
        for i, word in enumerate(self.words[1:], 1):
            head, equals, value = word.text.partition("=")
            if head in names:
                following = self.words[i + 1].text if i + 1 < len(self.words) else ""
                return value if equals else following if not following.startswith("-") else ""
        return None


class Launch(msgspec.Struct, frozen=True):
    """What a command comes to."""

    wrappers: tuple[Wrapper, ...]
    """The outermost first."""
    words: tuple[Word, ...]
    """The program itself and its arguments; empty if only a wrapper is there."""

    @property
    def program(self) -> str:
        """Its name without directories, "python" for each of its versions; empty where it is not literal."""
        if not self.words or not self.words[0].is_literal:
            return ""
        name = self.words[0].text.rpartition("/")[2]
        return "python" if _PYTHON.match(name) else name

    @property
    def python_script(self) -> str:
        """The path of the Python program that it runs, as it is written; empty if it is none."""
        if any(wrapper.name in _LAUNCHERS for wrapper in self.wrappers) and self.words:
            return self.words[0].text
        if self.program != "python":
            return self.words[0].text if self.words and self.words[0].text.endswith(".py") else ""
        for word in self.words[1:]:
            if not word.text.startswith("-"):
                return word.text if word.text.endswith(".py") else ""
            if word.text in ("-m", "-c"):
                return ""
        return ""

    def wrapper(self, name: str) -> Wrapper | None:
        return next((wrapper for wrapper in self.wrappers if wrapper.name == name), None)

    def has_argument(self, *texts: str) -> bool:
        """True if the program is given one of these, alone or with `=value`."""
        return any(word.text.partition("=")[0] in texts for word in self.words[1:])

    def argument(self, *names: str) -> Word | None:
        """The word that gives the value of the program's option: behind it, or itself with `=`."""
        for word, following in zip(self.words[1:], [*self.words[2:], None], strict=True):
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
        taken = _wrapper(rest)
        if taken is None:
            break
        name, count = taken
        wrappers.append(Wrapper(name, tuple(rest[:count])))
        rest = rest[count:]
    return Launch(tuple(wrappers), tuple(rest))


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
        name, take = "container", _container
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
    elif name in ("nice", "ionice", "time", "exec", "numactl", "stdbuf"):
        take = lambda t: _past_options(t, t[0].rpartition("/")[2], 1)  # noqa: E731 - one of a table
    elif name in _PLAIN:
        take = lambda t: _past_options(t, "", 1)  # noqa: E731 - one of a table
    elif name == "lastgood" and texts[1:2] == ["run"]:
        take = _lastgood
    elif _PYTHON.match(name) and texts[1:2] == ["-m"] and texts[2:3] and texts[2].startswith("torch.distributed."):
        name, take = "torchrun", lambda t: _past_options(t, "launcher", 3)
    elif _PYTHON.match(name) and texts[1:2] == ["-m"] and texts[2:3] == ["accelerate.commands.launch"]:
        name, take = "accelerate", lambda t: _past_options(t, "launcher", 3)
    if take is None:
        return None
    return name, min(take(texts), len(words))


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
    i = 1
    while i < len(texts) and texts[i].startswith("-"):
        i += 1
    if i < len(texts) and texts[i] in ("exec", "run", "shell", "start", "instance"):
        i += 1
    i = _past_options(texts, "container", i)
    return i + (not texts[0].rpartition("/")[2].startswith("shifter"))


def _launcher(texts: list[str]) -> int:
    begin = 2 if texts[1:2] == ["launch"] else 1
    i = _past_options(texts, "launcher", begin)
    scripts = [j for j, text in enumerate(texts) if j >= begin and text.endswith(".py")]
    return scripts[0] if scripts else i


def _lastgood(texts: list[str]) -> int:
    return texts.index("--") + 1 if "--" in texts else len(texts)
