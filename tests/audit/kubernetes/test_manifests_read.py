"""Manifests are found, read with their places, and what cannot be read is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.finding import Problem
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.reading import looks_like_manifest, read_manifests
from lastgood.audit.rule import Context
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

RULES = [rule for rule in all_rules() if rule.reads is Manifest]
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: one
spec:
  backoffLimit: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: a
        command: [python, train.py]
"""


def read(text: str) -> tuple[list[Manifest], list[Problem]]:
    return read_manifests(Source("x.yaml", text.encode("utf-8", "surrogateescape")))


def only(text: str) -> Manifest:
    manifests, problems = read(text)
    assert not problems
    (manifest,) = manifests
    return manifest


def test_a_job_has_its_fields_and_their_places() -> None:
    manifest = only("# first\n---\n" + JOB)
    (group,) = manifest.groups
    assert (manifest.kind, manifest.name, manifest.path) == ("Job", "one", "x.yaml")
    assert group.job is not None and group.job.backoff_limit == 3 and group.restart_policy == "Never"
    limit = group.job.spec.get("backoffLimit")
    assert limit is not None
    assert (limit.with_key.line, limit.with_key.column, limit.with_key.end_column) == (8, 3, 18)
    assert [word.text for word in group.containers[0].words] == ["python", "train.py"]
    assert group.containers[0].words[1].span.column == 27


def test_columns_count_characters_and_crlf_is_no_part_of_a_line() -> None:
    text = (
        JOB.replace("name: one", "name: größe")
        .replace("[python, train.py]", '["größe", train.py]')
        .replace("\n", "\r\n")
    )
    manifest = only(text)
    word = manifest.groups[0].containers[0].words[1]
    assert manifest.name == "größe"
    assert (word.span.line, word.span.column, word.span.end_column) == (13, 28, 36)


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        "apiVersion: example.org/v1\nkind: Unheard\nspec: {replicas: 3}\n",
        "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a}]}}}\n",
        "kind: Job\nnot: of Kubernetes\n",
        "apiVersion: engine.example.org/v1\nkind: Job\nspec: {backoffLimit: 0}\n",
        "# nothing\n",
        "",
        "- a\n- b\n",
        "just text\n",
    ],
)
def test_what_is_no_workload_is_passed_over_without_a_word(text: str) -> None:
    assert read(text) == ([], [])


def test_documents_and_lists_are_taken_apart() -> None:
    item = "\n".join("  " + line if line else "" for line in JOB.splitlines())
    as_list = "apiVersion: v1\nkind: List\nitems:\n- " + item.lstrip() + "\n"
    manifests, problems = read(JOB + "---\n" + as_list + "...\n---\napiVersion: v1\nkind: Service\n---\n" + JOB)
    assert not problems
    assert [manifest.place.line for manifest in manifests] == [2, 19, 37]


def test_json_is_read_too() -> None:
    assert only('{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}').name == "j"


def test_a_broken_document_is_named_with_its_place_and_does_not_hide_the_others() -> None:
    broken = JOB.replace("spec:\n  backoffLimit: 3", "spec:\n  backoffLimit: 3: 4")
    manifests, problems = read(JOB + "---\n" + broken + "---\n" + JOB)
    assert len(manifests) == 2
    (problem,) = problems
    assert problem.span is not None and problem.span.line == 20 and "not allowed here" not in problem.message
    assert "mapping values are not allowed" in problem.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (JOB + "\tx: y\n", "cannot start any token"),
        (JOB + "x: \x07\n", "control characters"),
        (JOB + "x: *nobody\n", "alias"),
        (JOB + "x: " + "[" * 5000, "nesting depth"),
        (JOB + "x: 'never closed\n", "end of stream"),
    ],
)
def test_invalid_yaml_says_what_is_wrong(text: str, what: str) -> None:
    manifests, problems = read(text)
    assert not manifests
    assert what in problems[0].message and problems[0].span is not None


def test_bytes_that_are_not_utf8_are_named_and_the_rest_is_read() -> None:
    manifests, problems = read_manifests(Source("x.yaml", JOB.encode() + b"# caf\xe9\n"))
    assert len(manifests) == 1
    assert "UTF-8" in problems[0].message and problems[0].is_partial


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert only("\ufeff" + JOB).api == "batch/v1"


def test_tags_are_not_constructed() -> None:
    manifest = only(JOB + 'x: !!python/object/apply:os.system ["exit 3"]\n')
    assert manifest.name == "one"


def test_merged_mappings_are_looked_through() -> None:
    manifest = only(
        "x: &x {backoffLimit: 9, completions: 2}\n" + JOB.replace("backoffLimit: 3", "<<: *x\n  completions: 5")
    )
    assert manifest.jobs[0].backoff_limit == 9
    assert manifest.jobs[0].spec.number("completions") == 5


def test_a_mapping_that_holds_itself_ends() -> None:
    manifest = only("apiVersion: batch/v1\nkind: Job\nspec: &s {<<: *s, template: {spec: *s}, containers: [*s]}\n")
    for rule in RULES:
        list(rule.check(manifest, Context()))


def test_aliases_that_multiply_are_not_followed_to_the_end() -> None:
    levels = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 15))
    text = f"a0: &a0 {{name: x}}\n{levels}" + JOB.replace("command: [python, train.py]", "env: *a14")
    for rule in RULES:
        list(rule.check(only(text), Context()))


def test_a_template_is_read_as_far_as_it_goes_and_says_so() -> None:
    text = (
        JOB.replace("name: one", 'name: "{{ .Release.Name }}-{{ .Values.x }}"')
        .replace(
            "  template:",
            "  {{- if .Values.ttl }}\n  ttlSecondsAfterFinished: {{ .Values.ttl }}\n  {{- end }}\n  template:",
        )
        .replace("backoffLimit: 3", "backoffLimit: {{ .Values.limit | default 6 }}")
    )
    (manifest,), (problem,) = read(text)
    assert manifest.name == "" and not manifest.is_complete
    assert manifest.jobs[0].backoff_limit is None
    assert problem.is_partial and problem.span is not None and problem.span.line == 4
    assert problem.message.startswith("5 lines hold tags of a template")


@pytest.mark.parametrize("tag", ["{% if x %}", "{# a comment #}", "{{/* a\ncomment */}}", "{{- with .x -}}"])
def test_tags_of_helm_and_jinja_keep_all_lines_where_they_are(tag: str) -> None:
    (manifest,), _ = read(tag + "\n" + JOB)
    assert manifest.place.line == 2 + len(tag.split("\n"))


def test_tags_inside_of_a_block_of_text_do_not_end_it() -> None:
    script = "[bash, -c]\n        args:\n        - |\n          python a.py \\\n  {{- range .x }}\n          {{ . }} \\\n  {{- end }}\n"
    (manifest,), _ = read(JOB.replace("[python, train.py]\n", script))
    (run,) = manifest.groups[0].containers[0].runs
    assert run.launch.python_script == "a.py" and run.span.line == 16


def test_a_template_that_is_no_yaml_asks_for_what_it_renders_to() -> None:
    (problem,) = read("{{ if .x }}\n" + JOB + "{{ .y }}: [\n")[1]
    assert "before it is filled in" in problem.message


def test_branches_of_a_template_with_the_same_key_are_not_known() -> None:
    text = JOB.replace(
        "  backoffLimit: 3", "  {{ if .x }}\n  backoffLimit: 0\n  {{ else }}\n  backoffLimit: 3\n  {{ end }}"
    )
    (manifest,), _ = read(text)
    assert manifest.jobs[0].backoff_limit is None


def test_variables_of_envsubst_are_named() -> None:
    (manifest,), (problem,) = read(JOB.replace("backoffLimit: 3", "backoffLimit: ${LIMIT}"))
    assert manifest.jobs[0].backoff_limit is None
    assert problem.message.startswith("a line holds variables") and problem.span is not None and problem.span.line == 6


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.yaml", JOB, True),
        ("-", "# a comment\n---\n" + JOB, True),
        ("a.tpl", "{{- if .x }}\n" + JOB, True),
        ("a.yaml", '{"apiVersion": "v1", "kind": "Pod"}', True),
        ("values.yaml", "image: a\nkind: Job\n", False),
        ("a.py", 'X = """\n' + JOB + '"""\n', False),
        ("notes", "How to write it\n\n" + JOB, False),
        ("a", "#!/bin/bash\nkubectl apply -f - <<EOF\n" + JOB + "EOF\n", False),
        ("a.yaml", "a: \0\n" + JOB, False),
    ],
)
def test_manifests_are_told_from_other_files(path: str, text: str, expected: bool) -> None:
    assert looks_like_manifest(Source(path, text.encode())) is expected


LINES = sorted({line for rule in RULES for line in rule.bad.splitlines()})
VALUES = [
    "null",
    "[]",
    "{}",
    "'x'",
    "-7",
    "[1, [2, {}]]",
    "{a: {b: c}}",
    "*x",
    "&x {}",
    "!!binary aaaa",
    "${X}",
    "{{ x }}",
    "|",
]


@given(st.data())
def test_no_rule_fails_on_manifests_that_are_bent(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(RULES)).bad.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["value", "drop", "move", "other"]))
        if how == "value":
            lines[at] = lines[at].partition(":")[0] + ": " + data.draw(st.sampled_from(VALUES))
        elif how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "move":
            lines[at] = "  " + lines[at]
        else:
            lines[at] = data.draw(st.sampled_from(LINES))
    source = Source("x.yaml", "\n".join(lines).encode())
    manifests, problems = read_manifests(source)
    assert all(problem.span is None or problem.span.line <= source.line_count for problem in problems)
    for manifest in manifests:
        for rule in RULES:
            for hit in rule.check(manifest, Context(write_s=60)):
                assert hit.span.column <= len(source.line(hit.span.line)) + 1


@given(st.text(alphabet="apiVersion:kdJobs{}[]%#-|>&*!\n \t'\"\\\ue000\u2028", max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for prefix in ("", "apiVersion: batch/v1\nkind: Job\n", "{{ x }}\napiVersion: v1\nkind: List\nitems:\n- "):
        read(prefix + text)
        looks_like_manifest(Source("x", (prefix + text).encode()))
