"""What rules ask a manifest: its pods, commands, where it writes, and whether it does long work."""

import pytest

from lastgood.audit.kubernetes.commands import Container
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.process import ending_of
from lastgood.audit.kubernetes.purpose import is_long, main_run
from lastgood.audit.kubernetes.reading import read_manifests
from lastgood.audit.kubernetes.storage import stores
from lastgood.audit.rule import Context, Severity
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source


def read(text: str) -> Manifest:
    (manifest,) = read_manifests(Source("x.yaml", text.encode()))[0]
    return manifest


def job(container: str, spec: str = "") -> Manifest:
    return read(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec:\n  template:\n    spec:\n{spec}"
        f"      containers:\n      - name: main\n        image: a\n{container}"
    )


def container(text: str) -> Container:
    return job(text).groups[0].containers[0]


def operator(kind: str, roles: str, api: str = "kubeflow.org/v1", spec: str = "") -> Manifest:
    pods = "template: {spec: {containers: [{name: a, image: a}]}}"
    replicas = "".join(f"    {role}: {{{fields}{', ' if fields else ''}{pods}}}\n" for role, fields in ROLES[roles])
    key = {"PyTorchJob": "pytorch", "TFJob": "tf", "MPIJob": "mpi"}[kind] + "ReplicaSpecs"
    return read(f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n{spec}  {key}:\n{replicas}")


ROLES = {
    "master and three": [("Master", ""), ("Worker", "replicas: 3, restartPolicy: Never")],
    "launcher": [("Launcher", ""), ("Worker", "replicas: 2")],
    "servers": [("PS", "replicas: 2"), ("Worker", "replicas: 2")],
    "one": [("Worker", "replicas: 1")],
}


def test_defaults_of_restart_policies_are_those_of_each_operator() -> None:
    def policies(manifest: Manifest) -> list[str]:
        return [group.restart_policy for group in manifest.groups]

    assert policies(operator("PyTorchJob", "master and three")) == ["OnFailure", "Never"]
    assert policies(operator("MPIJob", "launcher", "kubeflow.org/v2beta1")) == ["OnFailure", "Never"]
    assert policies(operator("MPIJob", "launcher", "kubeflow.org/v1")) == ["Never", "Never"]
    assert policies(operator("TFJob", "servers")) == ["Never", "Never"]


def test_a_jobset_counts_pods_over_its_jobs_and_fills_in_onfailure() -> None:
    manifest = read(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n  replicatedJobs:\n"
        "  - name: w\n    replicas: 3\n    template: {spec: {parallelism: 4, template: {spec: {containers: []}}}}\n"
        "  - name: c\n    template: {spec: {template: {spec: {containers: []}}}}\n"
    )
    assert [(group.role, group.pods, group.restart_policy) for group in manifest.groups] == [
        ("w", 12, "OnFailure"),
        ("c", 1, "OnFailure"),
    ]
    assert manifest.pods_at_once == 13


def test_ranks_are_coupled_where_the_kind_or_the_launcher_says_so() -> None:
    assert operator("PyTorchJob", "master and three").is_coupled
    assert not operator("PyTorchJob", "one").is_coupled
    assert not operator("TFJob", "servers").is_coupled
    torchrun = "        command: [torchrun, train.py]\n"
    assert not job(torchrun).is_coupled
    many = "apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: 4\n  template:\n    spec:\n      containers:\n      - name: a\n"
    assert read(many + torchrun).is_coupled
    assert not read(many + "        command: [python, train.py]\n").is_coupled
    assert read(many + "        env: [{name: MASTER_ADDR, value: a-0}]\n").is_coupled


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        (
            "        command: [bash, -c]\n        args:\n        - |\n          cd /w\n          python train.py\n",
            14,
            11,
            26,
        ),
        ("        command: [bash, -c]\n        args:\n        - |-\n\n            python train.py\n", 14, 13, 28),
        ("        command: [bash, -c, python train.py]\n", 10, 29, 44),
        ('        command: [bash, -c, "cd /w; python train.py"]\n', 10, 37, 52),
        ("        command: [bash, -c, 'echo a''b''c; python train.py']\n", 10, 44, 61),
        (
            "        command: [bash, -c]\n        args:\n        - >-\n          cd /w;\n          python train.py\n",
            14,
            11,
            26,
        ),
        (
            "        args:\n        - bash\n        - -c\n        - cd /w &&\n          python train.py &&\n          echo a\n",
            14,
            11,
            29,
        ),
        ("        command: [/bin/sh]\n        args: [-ec, python train.py]\n", 11, 21, 36),
        ("        command: [tini, --, bash, -c, python train.py]\n", 10, 39, 54),
    ],
)
def test_places_in_a_script_are_places_in_the_manifest(text: str, line: int, column: int, end: int) -> None:
    run = main_run(container(text))
    assert run is not None
    assert (run.span.line, run.span.column, run.span.end_column) == (line, column, end)


def test_kubernetes_puts_in_its_variables_and_leaves_the_shells_own() -> None:
    main = container(
        "        env: [{name: OUT, value: /ckpt}]\n        command: [bash, -c, 'python train.py --save-dir $(OUT)/$(hostname)']\n"
    )
    (run,) = main.runs
    assert [word.text for word in run.launch.words][-1] == "${OUT}/$(hostname)"
    assert main.expand("$(OUT)/a/${OUT}/$(NOT)") == "/ckpt/a//ckpt/$(NOT)"


def test_fields_of_the_pod_are_found_behind_variables() -> None:
    main = container(
        "        env:\n        - {name: P, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
        "        - {name: A, value: /x/$(P)}\n        - {name: L, value: $(L)}\n"
    )
    assert main.fields_in("$(A)/$(L)") == {"metadata.name"}
    assert main.expand("$(L)") == "$(L)"


def test_arguments_alone_are_no_program() -> None:
    (run,) = container("        args: [--train-input, /data]\n").runs
    assert run.launch.program == "" and run.span.line == 10
    assert container("        args: [python, a.py]\n").runs[0].launch.program == "python"


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("[bash, -c, 'cd /w && python train.py']", "last"),
        ("[bash, -c, 'python train.py; true']", "behind"),
        ("[bash, -c, 'python train.py || exit 1']", "behind"),
        ("[bash, -c, 'python train.py | tee log']", "pipe"),
        ("[bash, -c, 'python train.py & wait']", "background"),
        ("[bash, -c, 'while ! python train.py; do sleep 1; done']", "loop"),
        ("[bash, -c, 'for i in 1 2; do python train.py; done']", "loop"),
        ("[bash, -c, 'exec python train.py']", None),
        ("[bash, -c, 'trap : TERM; python train.py; true']", None),
        ("[bash, -c, 'trap : EXIT; python train.py; true']", None),
        ("[bash, -c, 'trap : USR1; python train.py; true']", "behind"),
        ("[dumb-init, bash, -c, 'python train.py; true']", None),
        ("[python, train.py]", None),
        ("[bash, train.sh]", None),
        ("[bash, -c, 'pip install x; ls']", None),
    ],
)
def test_what_keeps_a_shell_in_front_of_the_program(command: str, how: str | None) -> None:
    ending = ending_of(container(f"        command: {command}\n"))
    assert (ending.how if ending is not None else None) == how


@pytest.mark.parametrize(
    ("hook", "how"),
    [
        ('{exec: {command: [sh, -c, "pkill -TERM -f train.py; sleep 30"]}}', None),
        ("{exec: {command: [/usr/bin/killall, -TERM, python]}}", None),
        ('{exec: {command: [bash, -c, "kill -USR1 $(pidof python)"]}}', None),
        ("{exec: {command: [sleep, '5']}}", "behind"),
        ("{exec: {command: [sh, -c, ./skill_off.sh]}}", "behind"),
        ("{httpGet: {path: /kill}}", "behind"),
    ],
)
def test_a_hook_that_sends_the_signal_does_what_the_shell_does_not(hook: str, how: str | None) -> None:
    text = f"        command: [bash, -c, 'python train.py; true']\n        lifecycle: {{preStop: {hook}}}\n"
    ending = ending_of(container(text))
    assert (ending.how if ending is not None else None) == how


@pytest.mark.parametrize(
    "text",
    [
        "        command: [torchrun, train.py]\n",
        "        command: [gmx_mpi, mdrun, -deffnm, md]\n",
        "        command: [python, x.py, --resume]\n",
        "        command: [bash, -c, 'cd /x && python -m finetune.sft']\n        resources: {limits: {amd.com/gpu: 1}}\n",
        "        command: [python, train.py]\n        volumeMounts: [{name: ckpt, mountPath: /x}]\n",
        "        command: [python, train.py]\n        resources: {requests: {cpu: 64}}\n",
        "        resources: {limits: {nvidia.com/gpu: 1}}\n",
        "        resources: {requests: {google.com/tpu: 4}}\n",
        "        args: [--train-input, /data]\n        resources: {limits: {nvidia.com/a100: 1}}\n",
    ],
)
def test_long_work_is_recognised(text: str) -> None:
    assert is_long(job(text))


@pytest.mark.parametrize(
    "text",
    [
        "        command: [python, manage.py, migrate]\n",
        "        command: [python, train.py]\n        resources: {requests: {cpu: 500m}}\n",
        "        command: [nvidia-smi]\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
        "        command: [sleep, infinity]\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
        "        command: [bash, -c, 'pip install x; echo hello']\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
        "        command: [python, mnist.py, --epochs=1]\n",
        "        command: [mpirun, /opt/nccl-tests/build/all_reduce_perf]\n",
        "        command: [python, download_model.py]\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
        "        command: [python, -m, vllm.entrypoints.openai.api_server]\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
    ],
)
def test_what_prepares_tests_or_serves_is_no_long_work(text: str) -> None:
    assert not is_long(job(text))


def test_a_name_or_a_short_deadline_says_that_it_is_no_long_work() -> None:
    text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: NAME}\nspec: {REST template: {spec: {containers: [{name: a, image: a, command: [torchrun, train.py]}]}}}\n"
    assert is_long(read(text.replace("NAME", "pretrain-7b").replace("REST", "")))
    assert not is_long(read(text.replace("NAME", "nccl-test-7b").replace("REST", "")))
    assert not is_long(read(text.replace("NAME", "pretrain-7b").replace("REST", "activeDeadlineSeconds: 900,")))


@pytest.mark.parametrize(
    ("option", "path", "is_sure"),
    [
        ("--checkpoint-dir=/c", "/c", True),
        ("--ckpt_dir /c", "/c", True),
        ("--save /c", "/c", True),
        ("--output_dir=/c", "/c", False),
        ("checkpoint.dir=/c", "/c", True),
        ("trainer.default_root_dir=/c", "/c", False),
        ("--checkpoint-dir=s3://b/c", "s3://b/c", True),
    ],
)
def test_directories_for_checkpoints_are_told_by_their_option(option: str, path: str, is_sure: bool) -> None:
    words = ", ".join(["python", "train.py", *option.split()])
    ((_, place),) = stores(job(f"        command: [{words}]\n"))
    assert (place.path, place.is_sure) == (path, is_sure)


@pytest.mark.parametrize(
    "option",
    ["--save-interval=/5", "--load-checkpoint-dir=/c", "--init-from=/c", "--checkpoint-every 5", "--data-dir=/d"],
)
def test_other_options_name_no_directory_for_checkpoints(option: str) -> None:
    words = ", ".join(["python", "train.py", *option.split()])
    assert not list(stores(job(f"        command: [{words}]\n")))


def test_the_longest_mount_holds_a_path() -> None:
    main = container(
        "        volumeMounts:\n        - {name: a, mountPath: /d/}\n        - {name: b, mountPath: /d/ck}\n"
        "        - {name: c, mountPath: /d/ckpt}\n"
    )
    found = [main.mount_of(path) for path in ("/d/ckpt/1", "/d/ck", "/d/x", "/dx")]
    assert [mount.text("name") if mount is not None else None for mount in found] == ["c", "b", "a", None]


def test_without_a_write_time_the_grace_period_is_a_note_only_where_sigterm_is_handled() -> None:
    (rule,) = [rule for rule in all_rules() if rule.code == "LG809"]

    def severities(command: str, spec: str = "") -> list[Severity | None]:
        manifest = job(f"        command: {command}\n", spec)
        return [hit.severity for hit in rule.check(manifest, Context())]

    assert severities("[python, train.py, --resume]") == []
    assert severities("[python, train.py, --save-on-sigterm]") == [Severity.NOTE]
    assert severities("[python, train.py, --save-on-sigterm]", "      terminationGracePeriodSeconds: 60\n") == []
    assert severities("[python, train.py, --resume]", "      terminationGracePeriodSeconds: 1\n") == [None]
