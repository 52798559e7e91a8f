"""Programs that a stranger brings to a proof: what they print and write in unusual ways is not misread."""

from pathlib import Path

from lastgood.trial.lines import Follower


def texts(follower: Follower, *, is_over: bool = False) -> list[str]:
    return [line.text for line in follower.new_lines(0.0, is_over=is_over)]


class TestOutputWithoutNewlines:
    def test_a_line_that_nobody_ends_is_read_when_the_program_has_ended(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("\r step 59\r step 60")
        follower = Follower(output)
        assert texts(follower) == ["", " step 59"]
        assert texts(follower, is_over=True) == [" step 60"]
        assert texts(follower, is_over=True) == []

    def test_such_a_line_is_not_joined_with_the_first_of_the_next_start(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("\r step 35")
        follower = Follower(output)
        texts(follower, is_over=True)
        with output.open("a") as file:
            file.write("\r step 31\r")
        assert texts(follower) == ["", " step 31"]

    def test_what_the_launcher_says_behind_such_a_line_is_a_line_of_its_own(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("step 60 energy 1.5lastgood: attempt 1 finished after 2 s: exit code 0\n")
        assert texts(Follower(output)) == [
            "step 60 energy 1.5",
            "lastgood: attempt 1 finished after 2 s: exit code 0",
        ]
