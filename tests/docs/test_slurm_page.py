"""The script in the page on Slurm is the one that is written."""

from pathlib import Path

from lastgood.schedulers.slurm_script import BatchScript, batch_script, output_pattern

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "slurm.md"


def test_the_script_in_the_page_is_what_is_written():
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index("#!/bin/sh") :].split("```")[0]
    script = BatchScript(
        name="x",
        job="/home/you/runs/x",
        output=output_pattern("/home/you/runs/x", is_array=False),
        command=["python", "train.py"],
        python="/home/you/venv/bin/python",
        sbatch_options=["--time=24:00:00", "--gres=gpu:2"],
    )
    assert shown == batch_script(script)
