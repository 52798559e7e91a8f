"""Metrics that Prometheus' own parsers read, and that say what the report says."""

import math
import re

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as classic_families

from lastgood.report.model import KINDS, FleetReport, Report
from lastgood.report.openmetrics import METRICS, STATES, openmetrics_of

from .example import example_fleet, example_report, second_report


def samples(text: str) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], float]:
    """By name, job and the other labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            job = labels.pop("job_dir")
            labels.pop("job_id")
            found[sample.name, job, tuple(sorted(labels.items()))] = sample.value
    return found


def of(report: Report) -> FleetReport:
    return msgspec.structs.replace(example_fleet(), jobs=[report], not_read=[])


def test_the_text_is_open_metrics_with_types_units_and_help() -> None:
    text = openmetrics_of(example_fleet())
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {metric.name for metric in METRICS}
    for metric in METRICS:
        family = families[metric.name]
        assert (family.type, family.unit, family.documentation) == (metric.type, metric.unit, metric.help)
        assert metric.name.startswith("lastgood_job_")
        assert not metric.unit or metric.name.endswith(f"_{metric.unit}")
    assert text.endswith("\n# EOF\n")


def test_the_older_format_that_the_node_exporter_reads_holds_the_same_samples() -> None:
    text = openmetrics_of(example_fleet())
    theirs = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in classic_families(text)
        for sample in family.samples
    }
    ours = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert theirs == ours
    for line in text.splitlines():
        # The node exporter refuses timestamps, and help in which a quote is escaped.
        assert line.startswith("#") or re.fullmatch(r"\w+\{.*\} \S+", line)
        assert not line.startswith("# HELP") or "\\" not in line


def test_the_samples_say_what_the_report_says() -> None:
    report = example_report()
    found = samples(openmetrics_of(of(report)))
    job = report.job
    for share in report.shares:
        assert found["lastgood_job_time_seconds", job, (("kind", share.kind),)] == share.seconds
    assert math.fsum(found["lastgood_job_time_seconds", job, (("kind", kind),)] for kind in KINDS) == pytest.approx(
        report.seconds
    )
    assert report.ettr is not None
    assert found["lastgood_job_ettr_ratio", job, ()] == report.ettr.share
    assert found["lastgood_job_step", job, ()] == report.reached_step
    assert found["lastgood_job_last_good_step", job, ()] == report.last_good_step
    assert found["lastgood_job_last_good_timestamp_seconds", job, ()] == report.checkpoints[0].created
    assert found["lastgood_job_save_interval_planned_seconds", job, ()] == report.interval.planned_s
    assert found["lastgood_job_save_interval_promised_seconds", job, ()] == report.interval.said[-1].interval_s
    assert found["lastgood_job_attempts_total", job, ()] == len(report.attempts)
    assert found["lastgood_job_saves_total", job, ()] == len(report.saves)
    assert found["lastgood_job_failed_saves_total", job, ()] == 1
    ends = {
        labels[0][1]: value for (name, _, labels), value in found.items() if name == "lastgood_job_ended_attempts_total"
    }
    assert ends == {"killed": 1, "preempted": 1, "hang": 1, "launcher lost": 1, "finished": 1}


@pytest.mark.parametrize("state", STATES)
def test_one_state_is_the_jobs(state: str) -> None:
    found = samples(openmetrics_of(of(msgspec.structs.replace(example_report(), state=state))))
    states = {labels[0][1]: value for (name, _, labels), value in found.items() if name == "lastgood_job_state"}
    assert states == {other: float(other == state) for other in STATES}


def test_what_is_not_known_is_left_out() -> None:
    names = {name for name, _, _ in samples(openmetrics_of(of(second_report())))}
    assert "lastgood_job_last_good_timestamp_seconds" not in names
    assert "lastgood_job_save_write_seconds" not in names
    assert "lastgood_job_steps" not in names
    assert "lastgood_job_attempts_total" in names


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ä ö", "a{b}=,c", "\\n", "</script>", 'x"} 5\n# EOF'])
def test_no_name_of_a_job_breaks_the_text(name: str) -> None:
    found = samples(openmetrics_of(of(msgspec.structs.replace(example_report(), job=name))))
    assert {job for _, job, _ in found} == {name}


def test_the_states_are_those_of_status() -> None:
    from lastgood.launch.standing import State

    assert set(STATES) == {state.value for state in State}
