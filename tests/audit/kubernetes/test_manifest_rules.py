"""What all rules of manifests have in common: when they are silent, and what they say of which case."""

import re

import pytest

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.reading import read_manifests
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

RULES = {rule.code: rule for rule in all_rules() if rule.reads is Manifest}
ALWAYS = {"LG804", "LG808"}
"""They are about what cannot work, whatever the work is."""
OF_RETRIES = {"LG801", "LG802", "LG803", "LG811", "LG814", "LG816", "LG817", "LG818", "LG819", "LG820", "LG821"}
OF_WHAT_IS_NOT_THERE = {"LG803", "LG807", "LG809", "LG816", "LG817", "LG819", "LG820", "LG824"}
RETRIES_OF_LASTGOOD = {"LG803", "LG811", "LG817", "LG818", "LG820"}


def hits(rule: Rule, text: str, write_s: float | None = None) -> list[Hit]:
    manifests, _ = read_manifests(Source("x.yaml", text.encode()))
    return [hit for manifest in manifests for hit in rule.check(manifest, Context(write_s=write_s or rule.write_s))]


def each(codes: set[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", [RULES[code] for code in sorted(codes)], ids=lambda rule: rule.code)


@each(set(RULES) - ALWAYS)
def test_a_test_by_its_name_is_no_long_work(rule: Rule) -> None:
    changed = re.sub(r"(?m)^  name: (pretrain|retrain|finetune)$", "  name: smoke-test", rule.bad)
    assert changed != rule.bad and hits(rule, rule.bad)
    assert not hits(rule, changed)


@each(OF_RETRIES)
def test_who_has_an_owner_is_not_told_about_retries(rule: Rule) -> None:
    owner = "metadata:\n  ownerReferences:\n  - {apiVersion: example.org/v1, kind: Study, name: a, uid: b}\n"
    assert not hits(rule, rule.bad.replace("metadata:\n", owner, 1))


@each(OF_RETRIES - {"LG802"})
def test_who_is_managed_by_another_controller_is_not_told_about_retries(rule: Rule) -> None:
    assert not hits(rule, rule.bad.replace("\nspec:\n", "\nspec:\n  managedBy: kueue.x-k8s.io/multikueue\n", 1))


@each(OF_WHAT_IS_NOT_THERE)
def test_a_template_may_put_in_what_is_not_there(rule: Rule) -> None:
    changed = rule.bad.replace("\nspec:\n", '\nspec:\n  {{- include "more" . | nindent 2 }}\n', 1)
    if rule.code == "LG817":
        # Its rules may be among what is put in.
        assert "failurePolicy" in changed
    assert not hits(rule, changed)


@each(set(RULES) - OF_WHAT_IS_NOT_THERE)
def test_what_is_there_is_found_in_a_template_too(rule: Rule) -> None:
    changed = rule.bad.replace("metadata:\n", "metadata:\n  labels: {{- toYaml .Values.labels | nindent 4 }}\n", 1)
    assert bool(hits(rule, changed)) == (rule.code not in {"LG804"})


@each(RETRIES_OF_LASTGOOD)
def test_the_launcher_of_lastgood_owns_its_retries(rule: Rule) -> None:
    changed = re.sub(r"command: \[", "command: [lastgood, run, --job, /ckpt/a, --, ", rule.bad, count=1)
    assert changed != rule.bad
    assert not hits(rule, changed)


@each(set(RULES))
def test_one_thing_is_said_once(rule: Rule) -> None:
    assert len(hits(rule, rule.bad)) == 1


def job(command: str, spec: str = "  backoffLimit: 6\n", pod: str = "", more: str = "") -> str:
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: pretrain\nspec:\n{spec}  template:\n    spec:\n"
        f"      restartPolicy: Never\n{pod}      containers:\n      - name: train\n        image: registry.example/a:1\n"
        f"        command: {command}\n{more}"
    )


@pytest.mark.parametrize(
    ("code", "text", "fragment"),
    [
        ("LG801", job("[torchrun, a.py]", "  backoffLimit: 0\n"), "restartPolicy Never with backoffLimit 0"),
        ("LG803", job("[torchrun, a.py]"), "no podFailurePolicy: a drain"),
        ("LG803", job("[torchrun, a.py]"), "one of the 6 retries like a crash of the program"),
        ("LG803", job("[torchrun, a.py]", "  backoffLimit: 1\n"), "the one retry"),
        ("LG803", job("[torchrun, a.py]", "  backoffLimit: 3\n"), "all within 70 s"),
        ("LG803", job("[torchrun, a.py]").replace("Never", "OnFailure"), "OnFailure allows no podFailurePolicy"),
        ("LG812", job("[bash, -c, 'torchrun a.py; echo done']"), "`echo` comes behind a.py"),
        ("LG812", job("[bash, -c, 'torchrun a.py | tee b']"), "a.py is in a pipe"),
        ("LG812", job("[bash, -c, 'torchrun a.py & wait']"), "a.py runs in the background"),
        ("LG812", job("[bash, -c, 'for i in 1 2; do torchrun a.py; done']"), "a.py runs in a loop"),
        ("LG813", job("[sh, -c, torchrun a.py]"), "sh (dash, for example)"),
        ("LG813", job("[bash, -c, 'ls; torchrun a.py']"), "bash before 5.1"),
        ("LG822", job("[bash, -c, 'torchrun a.py; sleep infinity']"), "goes on for ever behind a.py"),
        ("LG822", job("[bash, -c, 'torchrun a.py; echo b']"), "another command runs behind it"),
        ("LG822", job("[bash, -c, 'torchrun a.py; exit 0']"), "`exit 0` stands behind it"),
        ("LG822", job("[bash, -c, 'torchrun a.py || true']"), "`||` takes the place"),
        ("LG821", job("[torchrun, --max_restarts=2, a.py]"), "together 21 attempts"),
        (
            "LG809",
            job("[torchrun, a.py]", pod="      terminationGracePeriodSeconds: 20\n"),
            "is 20 s, and a checkpoint takes",
        ),
        ("LG809", job("[torchrun, a.py]"), "the default grace period is 30 s"),
        ("LG819", RULES["LG819"].bad, "it runs on spot machines"),
        (
            "LG805",
            RULES["LG805"].bad.replace("{sizeLimit: 200Gi}", "{medium: Memory}"),
            "(in memory, deleted with its pod)",
        ),
    ],
)
def test_a_message_fits_the_case(code: str, text: str, fragment: str) -> None:
    found = hits(RULES[code], text)
    assert [fragment in hit.message for hit in found] == [True]


MOUNT = "        volumeMounts:\n        - {name: v, mountPath: /v}\n      volumes:\n      - {name: v, STORE}\n"


@pytest.mark.parametrize(
    ("code", "option", "store", "severity"),
    [
        ("LG805", "--checkpoint-dir=/v", "emptyDir: {}", Severity.LOST),
        ("LG805", "--output-dir=/v", "emptyDir: {}", Severity.MAY_BE_LOST),
        ("LG806", "--checkpoint-dir=/v", "hostPath: {path: /data0}", Severity.MAY_BE_LOST),
        ("LG807", "--checkpoint-dir=/w", "emptyDir: {}", Severity.LOST),
        ("LG807", "--output-dir=/w", "emptyDir: {}", Severity.MAY_BE_LOST),
        ("LG807", "--checkpoint-dir=w", "emptyDir: {}", Severity.MAY_BE_LOST),
    ],
)
def test_work_is_lost_only_where_there_is_no_doubt(code: str, option: str, store: str, severity: Severity) -> None:
    rule = RULES[code]
    (hit,) = hits(rule, job(f"[torchrun, a.py, {option}]", more=MOUNT.replace("STORE", store)))
    assert (hit.severity or rule.severity) is severity


def test_a_file_is_not_proposed_as_a_mount() -> None:
    (hit,) = hits(RULES["LG807"], job("[torchrun, a.py, --checkpoint-file=/w/c/last.pt]"))
    assert "mountPath: /w/c}" in hit.remedy


def test_a_shorter_grace_period_by_a_hook_is_counted() -> None:
    hook = "        lifecycle: {preStop: {sleep: {seconds: 100}}}\n"
    pod = "      terminationGracePeriodSeconds: 120\n"
    (hit,) = hits(RULES["LG809"], job("[torchrun, a.py]", pod=pod, more=hook), 60)
    assert "less the preStop hook's sleep of 100 s is 20 s" in hit.message
    assert hit.remedy == "`terminationGracePeriodSeconds: 220`"
    assert not hits(RULES["LG809"], job("[torchrun, a.py]", pod=pod), 60)
