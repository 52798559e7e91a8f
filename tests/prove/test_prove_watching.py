"""What is seen of a trial while it runs."""

from pathlib import Path

from lastgood.prove.watching import Watch
from lastgood.trial.place import Place
from lastgood.trial.trial import Sight


def sight(start: int) -> Sight:
    return Sight(at=100.0 + start, start=start, attempt=start, step=None, saved_step=None, phase="", is_running=True)


def test_a_line_that_a_kill_has_cut_off_is_not_joined_with_what_the_next_start_says(tmp_path: Path) -> None:
    place = Place(tmp_path, "killed")
    place.work.mkdir(parents=True)
    with place.output.open("w") as output:
        watch = Watch(place)
        # Its threads were still dying when it was looked at: it seemed to run.
        output.write("step 16 loss 1\nstep 17 loss 2")
        output.flush()
        watch(sight(1))
        watch.end_start(1)
        output.write("step 1 loss 9\n")
        output.flush()
        watch(sight(2))
    told = [(line.start, line.text) for line in watch.lines]
    assert told == [(1, "step 16 loss 1"), (1, "step 17 loss 2"), (2, "step 1 loss 9")]
