"""A real Slurm with several nodes on this machine: slurmctld, slurmdbd on MariaDB, munge, and one slurmd per node.

Nodes have CPUs, memory and GPUs that the machine need not have (the GPU files are /dev/null). Everything lives below
one directory and ends with this process. Faults are the real ones: daemons and processes are killed or stopped.
"""

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from lastgood.launch.process import name_of

from . import configuration, machine

# States in which Slurm is done with a job.
ENDED = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
        "REVOKED",
    ]
)
_HISTORY = "JobID,JobIDRaw,JobName,State,ExitCode,Start,End,Elapsed,NodeList,Partition,AllocTRES,Reason"
LIMIT_S = 240.0
"""For whatever a test waits for. Nothing comes near it on a quiet machine; a busy one is given time."""
_NODE_VARIABLE = "TEST_CLUSTER_NODE"


class SlurmCluster:
    """`with SlurmCluster(directory) as cluster:` brings one up and ends it. Several can run at once.

    Limits: needs root, and at most 20 nodes. `directory` should be short: sockets have their names below it.
    """

    def __init__(self, directory: Path | None = None, nodes: int = 4) -> None:
        self.directory = directory or Path(tempfile.mkdtemp(prefix="lgs-", dir="/tmp"))
        self.name = f"lg{secrets.token_hex(4)}"
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._host = socket.gethostname().split(".")[0]
        self._settings = dict(configuration.SETTINGS)
        self._partitions = {name: dict(options) for name, options in configuration.PARTITIONS.items()}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._cut_off: dict[str, list[psutil.Process]] = {}
        self._ports: machine.Ports | None = None
        # A daemon dies with the thread that has started it: none of a test's own, which ends before the cluster does.
        self._starter = ThreadPoolExecutor(1)

    # Start and end

    def __enter__(self) -> Self:
        reason = machine.missing()
        if reason:
            raise RuntimeError(reason)
        machine.start_munge()
        for tries_left in (2, 1, 0):
            self._ports = machine.Ports()
            try:
                self._start()
            except BaseException as error:
                self.stop()
                # Somebody who does not ask us may have taken a port meanwhile.
                if tries_left and isinstance(error, AssertionError) and "Address already in use" in str(error):
                    continue
                raise
            return self
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._starter.shutdown()

    def _start(self) -> None:
        assert self._ports is not None
        database_port, _, accounting_port = self._ports.numbers[:3]
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "state").mkdir()
        (self.directory / "tmp").mkdir()
        for number in range(configuration.GPUS):
            os.mknod(self.directory / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        for name in self.nodes:
            (self.directory / name).mkdir()
        self._write_configuration()
        (self.directory / "gres.conf").write_text(configuration.gres_conf(self.directory, self.nodes))
        accounting = self.directory / "slurmdbd.conf"
        accounting.touch(0o600)
        accounting.write_text(configuration.slurmdbd_conf(self.directory, self._host, accounting_port, database_port))

        self._start_database(database_port)
        self._daemons["slurmdbd"] = self._daemon("slurmdbd", "-D")
        self.wait_until(lambda: self._listens("slurmdbd", accounting_port), "slurmdbd listens", LIMIT_S)
        self._check(self.run("sacctmgr", "-i", "add", "cluster", self.name))
        self.start_controller()
        for name in self.nodes:
            self._start_node(name)
        self.wait_until(self._all_idle_at_start, "all nodes are idle", LIMIT_S)

    def _start_database(self, port: int) -> None:
        options = [
            "--no-defaults",
            "--user=root",
            f"--datadir={self.directory}/db",
            # Each mariadbd that starts removes all temporary tables in its directory for them.
            f"--tmpdir={self.directory}/tmp",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
            # Nobody needs these data after the tests.
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-doublewrite=0",
        ]
        installed = subprocess.run(
            ["mysql_install_db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            env={"PATH": machine.PATH},
            capture_output=True,
            text=True,
            check=False,
        )
        assert installed.returncode == 0, installed.stdout + installed.stderr
        grants = self.directory / "grants.sql"
        grants.write_text(
            "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm';\nGRANT ALL ON *.* TO slurm@'127.0.0.1';\n"
        )
        self._daemons["mariadbd"] = machine.daemon(
            [
                "mariadbd",
                *options,
                f"--socket={self.directory}/db.sock",
                f"--pid-file={self.directory}/db.pid",
                f"--port={port}",
                "--bind-address=127.0.0.1",
                "--skip-name-resolve",
                f"--init-file={grants}",
            ],
            self.directory / "mariadbd.log",
        )
        self.wait_until(lambda: self._listens("mariadbd", port), "mariadbd listens", LIMIT_S)

    def _write_configuration(self) -> None:
        assert self._ports is not None
        conf = self.directory / "slurm.conf"
        new = conf.with_suffix(".new")
        new.write_text(
            configuration.slurm_conf(
                self.directory,
                self.name,
                self._host,
                self.nodes,
                self._ports.numbers[1:],
                {name: value for name, value in self._settings.items() if value},
                self._partitions,
            )
        )
        new.replace(conf)

    def _daemon(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        log, conf = self.directory / f"{words[0]}.out", str(self.directory / "slurm.conf")
        return self._starter.submit(machine.daemon, words, log, SLURM_CONF=conf, **environment).result()

    def _listens(self, daemon: str, port: int) -> bool:
        self._check_running(daemon)
        # Asked of the daemon itself: at the port somebody else may answer.
        try:
            connections = psutil.Process(self._daemons[daemon].pid).net_connections("tcp")
        except psutil.NoSuchProcess:
            return False
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections)

    def _check_running(self, *daemons: str) -> None:
        for daemon in daemons:
            code = self._daemons[daemon].poll()
            assert code is None, f"{daemon} ended with {code}\n{self.evidence()}"

    def _all_idle_at_start(self) -> bool:
        self._check_running(*self._daemons)
        return self._all_idle()

    def stop(self) -> None:
        """Ends everything that this cluster has started and removes its directory."""
        # Nodes first and at once: nothing is left that a dying job could start.
        processes = machine.freeze(self._all_processes)
        machine.send(processes, signal.SIGKILL)
        for name, process in reversed(self._daemons.items()):
            # Jobs are gone, so what the daemons would still save is of no use.
            if name != "mariadbd":
                process.kill()
            machine.end(process, signal.SIGKILL)
        machine.wait_until(lambda: not any(map(machine.is_alive, processes)), "all jobs are dead", LIMIT_S)
        self._daemons.clear()
        self._cut_off.clear()
        left = self._all_processes()
        if self._ports is not None:
            self._ports.release()
            self._ports = None
        shutil.rmtree(self.directory, ignore_errors=True)
        assert not left, f"processes are left: {left}"

    # Commands

    @property
    def environment(self) -> dict[str, str]:
        """For processes that use this cluster: the test's own environment, without what an outer Slurm has set."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        return inherited | {"SLURM_CONF": str(self.directory / "slurm.conf"), "PATH": machine.PATH}

    def run(self, *words: str | Path, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        """Runs a command on this cluster; its exit code is for the caller to look at."""
        return subprocess.run(
            [*map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def _check(self, done: subprocess.CompletedProcess[str]) -> str:
        assert done.returncode == 0, f"{done.args}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.evidence()}"
        return done.stdout

    def submit(self, script: str | Path, *options: str, directory: Path | None = None) -> int:
        """Submits a batch script, given as its path or its text, and returns the job's id.

        Output goes to `slurm-<id>.out` in `directory` (by default the cluster's), appended to by later attempts.
        """
        where = directory or self.directory
        if isinstance(script, str):
            text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
            script = where / f"batch-{secrets.token_hex(4)}.sh"
            script.write_text(text)
        output = self._check(
            self.run("sbatch", "--parsable", f"--chdir={where}", "--open-mode=append", *options, script)
        )
        return int(output.strip().split(";")[0])

    def cancel(self, job_id: int, *options: str) -> None:
        self._check(self.run("scancel", *options, str(job_id)))

    def preempt(self, nodes: Iterable[str], hold_s: float = 2) -> int:
        """Submits a job to `high` that takes these nodes as a whole for a short while, and returns its id."""
        names = ",".join(nodes)
        count = str(len(names.split(",")))
        return self.submit(
            f"sleep {hold_s:g}", "--partition=high", f"--nodelist={names}", f"--nodes={count}", "--exclusive",
            "--output=/dev/null",
        )  # fmt: skip

    def limit_in(self, job_id: int, seconds: float) -> None:
        """Moves the job's time limit to this moment. Slurm looks for jobs beyond their limit each 30 s."""
        self._check(self.run("scontrol", "update", f"JobId={job_id}", f"EndTime=now+{seconds:g}"))

    # What Slurm says

    def show(self, job_id: int) -> dict[str, str]:
        """The fields of `scontrol show job`; empty for a job that slurmctld does not know."""
        line = self.run("scontrol", "-o", "show", "job", str(job_id)).stdout
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def state(self, job_id: int) -> str:
        return self.show(job_id).get("JobState", "")

    def nodes_of(self, job_id: int) -> list[str]:
        names = self.show(job_id).get("NodeList", "(null)")
        if names == "(null)":
            return []
        return self._check(self.run("scontrol", "show", "hostnames", names)).split()

    def history(self, job_id: int) -> list[dict[str, str]]:
        """Every attempt of a job, as slurmdbd knows them, oldest first."""
        output = self._check(
            self.run("sacct", "-X", "--duplicates", "-P", "-j", str(job_id), f"--format={_HISTORY}")
        ).splitlines()
        names = output[0].split("|")
        return [dict(zip(names, line.split("|"), strict=True)) for line in output[1:]]

    def wait_for(self, job_id: int, *states: str, limit_s: float = LIMIT_S) -> str:
        """Waits until the job is in one of these states, and returns it."""
        self.wait_until(lambda: self.state(job_id) in states, f"job {job_id} is {' or '.join(states)}", limit_s, job_id)
        return self.state(job_id)

    def wait_ended(self, job_id: int, limit_s: float = LIMIT_S) -> str:
        """Waits until Slurm is done with the job and none of its processes is left, and returns the last state."""
        return self.wait_for(job_id, *ENDED, limit_s=limit_s)

    def wait_restarted(self, job_id: int, restarts: int = 1, limit_s: float = LIMIT_S) -> None:
        """Waits until the job runs for the `restarts`-th time after its first."""

        def again() -> bool:
            shown = self.show(job_id)
            return int(shown.get("Restarts", 0)) >= restarts and shown["JobState"] != "PENDING"

        self.wait_until(again, f"job {job_id} runs again", limit_s, job_id)

    def wait_history(self, job_id: int, *states: str, limit_s: float = LIMIT_S) -> list[dict[str, str]]:
        """Waits until the attempts' states in the accounting, oldest first, are these; it learns of ends a little
        later than slurmctld."""

        def told() -> list[str]:
            return [attempt["State"].split(" ")[0] for attempt in self.history(job_id)]

        self.wait_until(lambda: told() == list(states), f"history of {job_id} is {states}", limit_s, job_id)
        return self.history(job_id)

    def wait_until(
        self, true: Callable[[], object], what: str, limit_s: float = LIMIT_S, job_id: int | None = None
    ) -> None:
        """Waits; a failure shows the evidence."""
        machine.wait_until(true, f"{self.name}: {what}", limit_s, lambda: self.evidence(job_id))

    def evidence(self, job_id: int | None = None) -> str:
        """The job, its output, the queue and the daemons' logs."""

        def tail(name: str, lines: int) -> str:
            try:
                return "\n".join((self.directory / name).read_text(errors="replace").splitlines()[-lines:])
            except OSError:
                return ""

        parts = {name: tail(name, 12) for name in ("mariadbd.log", "slurmdbd.log", "slurmctld.out", "slurmd.out")}
        parts["slurmctld.log"] = tail("slurmctld.log", 80)
        if job_id is not None:
            parts["output"] = tail(f"slurm-{job_id}.out", 40)
            parts |= {f"{name}.log": tail(f"{name}.log", 25) for name in self.nodes}
        words = {"sinfo": ["sinfo", "-N", "-l"], "queue": ["squeue", "-a"]}
        if job_id is not None:
            words["job"] = ["scontrol", "show", "job", str(job_id)]
        for name, command in words.items() if "slurmctld" in self._daemons else ():
            try:
                done = self.run(*command, limit_s=30)
                parts[name] = done.stdout + done.stderr
            except (OSError, subprocess.SubprocessError) as error:
                parts[name] = str(error)
        return "\n".join(f"--- {name}\n{text}" for name, text in parts.items() if text.strip())

    # Settings

    def configure(self, **settings: object) -> None:
        """Changes settings of the running cluster; those not named keep their values.

        An empty value stands for Slurm's own. A partition's name takes a dictionary: `configure(KillWait=2, grace={"GraceTime": 10})`.
        """
        for name, value in settings.items():
            if name in self._partitions:
                assert isinstance(value, dict)
                self._partitions[name].update((option, str(text)) for option, text in value.items())
            else:
                self._settings[name] = str(value)
        self._reconfigure()

    def configure_defaults(self) -> None:
        """Takes back all that `configure` has changed."""
        partitions = {name: dict(options) for name, options in configuration.PARTITIONS.items()}
        if self._settings == configuration.SETTINGS and self._partitions == partitions:
            return
        self._settings, self._partitions = dict(configuration.SETTINGS), partitions
        self._reconfigure()

    def _reconfigure(self) -> None:
        self._write_configuration()
        self._check(self.run("scontrol", "reconfigure"))

    # Faults

    def processes_of_node(self, name: str) -> list[psutil.Process]:
        """What jobs run on this node, without Slurm's own daemons; an srun started there counts."""
        return [process for process in self._node_processes(name) if not _is_daemon(process)]

    def _node_processes(self, name: str) -> list[psutil.Process]:
        conf, mark = str(self.directory / "slurm.conf"), f"{self.name}:{name}"

        def told(environment: dict[str, str]) -> bool:
            if environment.get("SLURM_CONF") == conf and environment.get("SLURMD_NODENAME") == name:
                return True
            return environment.get(_NODE_VARIABLE) == mark

        return machine.processes_with(told, {str(self.directory / f"{name}.log")})

    def _all_processes(self) -> list[psutil.Process]:
        conf = str(self.directory / "slurm.conf")

        def told(environment: dict[str, str]) -> bool:
            if environment.get(_NODE_VARIABLE, "").startswith(f"{self.name}:"):
                return True
            return environment.get("SLURM_CONF") == conf and "SLURMD_NODENAME" in environment

        return machine.processes_with(told, {str(self.directory / f"{name}.log") for name in self.nodes})

    def kill_node(self, name: str) -> None:
        """Its slurmd, its slurmstepds and every process below end at once, and nobody gets to report it."""
        processes = machine.freeze(lambda: self._node_processes(name))
        # Parents last: the kernel wakes stopped processes that lose theirs, with SIGHUP.
        machine.send(sorted(processes, key=_is_daemon), signal.SIGKILL)
        self._daemons[name].kill()
        self._daemons[name].wait()
        self.wait_until(lambda: not any(map(machine.is_alive, processes)), f"all of {name} is dead", LIMIT_S)

    def notice(self, name: str) -> None:
        """Tells Slurm that a node is dead or cut off, what it finds out by itself in about half a minute."""
        self._check(self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=not responding"))

    def cut_off_node(self, name: str) -> None:
        """As if its network were cut: the node cannot be reached and reports nothing; what runs on it goes on."""
        processes = self._node_processes(name)
        cut = [process for process in processes if _is_daemon(process) or name_of(process) == "srun"]
        machine.send(cut, signal.SIGSTOP)
        self._daemons[name].kill()
        self._daemons[name].wait()
        self._cut_off[name] = cut

    def kill_cut_off(self, name: str) -> None:
        """Ends what still runs on a node that was cut off."""
        self._cut_off.pop(name)
        self.kill_node(name)

    def restore_node(self, name: str) -> None:
        """Starts the node again; one that was cut off gets its network back. Returns when Slurm can use it."""
        machine.send(self._cut_off.pop(name, []), signal.SIGCONT)
        if self._daemons[name].poll() is not None:
            self._start_node(name)
        self._resume([name])
        self.wait_until(lambda: not self._unusable([name]), f"{name} is usable", LIMIT_S)

    def _start_node(self, name: str) -> None:
        self._daemons[name] = self._daemon("slurmd", "-D", "-N", name, **{_NODE_VARIABLE: f"{self.name}:{name}"})

    def stop_controller(self, crash: bool = False) -> None:
        """slurmctld ends in good order; with `crash` it is killed, and what it had not saved yet (the last
        5 s) is lost: a job that began then is unknown to the next one, which may give its number to another."""
        machine.end(self._daemons["slurmctld"], signal.SIGKILL if crash else signal.SIGTERM, limit_s=30)

    def state_saved_at(self) -> float:
        """When slurmctld has last written down what it knows of jobs; 0 if it has not. A new file takes the place of the old
        one in two moves, between which there is none."""
        try:
            return (self.directory / "state" / "job_state").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def start_controller(self) -> None:
        """Starts slurmctld and waits until it answers."""
        self._daemons["slurmctld"] = self._daemon("slurmctld", "-D")
        self.wait_until(self._controller_answers, "slurmctld answers", LIMIT_S)

    def _controller_answers(self) -> bool:
        assert self._ports is not None
        return (
            self._listens("slurmctld", self._ports.numbers[1])
            and self.run("scontrol", "ping").stdout.count("is UP") == 1
        )

    # Between tests

    def free(self, limit_s: float = LIMIT_S) -> None:
        """Cancels all jobs and waits until all daemons run and all nodes are idle."""
        if self._daemons["slurmctld"].poll() is not None:
            self.start_controller()
        self.configure_defaults()
        for name in list(self._cut_off):
            self.kill_cut_off(name)
        for name in self.nodes:
            if self._daemons[name].poll() is not None:
                self._start_node(name)
        self.run("scancel", "--user=root")

        def idle() -> bool:
            # A task may ignore TERM, so it is killed here and not only after KillWait.
            for name in self.nodes:
                machine.send(self.processes_of_node(name), signal.SIGKILL)
            self._resume(self.nodes)
            return not self.run("squeue", "-h", "-a").stdout.strip() and self._all_idle()

        self.wait_until(idle, "all nodes are idle", limit_s)

    def _node_states(self) -> dict[str, str]:
        lines = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").stdout.splitlines()
        return dict(line.split() for line in lines)

    def _all_idle(self) -> bool:
        states = self._node_states()
        return len(states) == len(self.nodes) and set(states.values()) == {"idle"}

    def _unusable(self, names: Iterable[str]) -> list[str]:
        states = self._node_states()
        return [name for name in names if states.get(name) not in ("idle", "mixed", "allocated", "completing")]

    def _resume(self, names: Iterable[str]) -> None:
        states = self._node_states()
        for name in names:
            if any(word in states.get(name, "") for word in ("down", "drain", "fail")):
                self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


def _is_daemon(process: psutil.Process) -> bool:
    try:
        # A batch script's process is called slurm_script.
        return name_of(process) in ("slurmd", "slurmstepd")
    except psutil.NoSuchProcess:
        return False
