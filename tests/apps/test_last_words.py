"""The last step that an application tells of: of whole lines only, however its output was cut off."""

import pytest

from lastgood.apps.last_words import END_BYTES, gromacs_step, lammps_step, openfoam_time, read_end, relion_iteration

GROMACS = """\
           Step           Time
              0        0.00000

   Energies (kJ/mol)
        LJ (SR)   Coulomb (SR)      Potential    Kinetic En.   Total Energy
    7.81330e+03   -5.31216e+04   -4.53083e+04    8.01046e+03   -3.72978e+04

           Step           Time
           1200        2.40000

Writing checkpoint, step 1234 at Mon Nov 30 04:00:00 2026

           Step           Time
           2400        4.80000

"""
OPENFOAM = """\
Create time

Time = 0.0005

Courant Number mean: 0.0976825 max: 0.585607
smoothSolver:  Solving for Ux, Initial residual = 1, Final residual = 8.90511e-06, No Iterations 19
ExecutionTime = 0.01 s  ClockTime = 0 s

Time = 0.001

Time = 1e-05

Time = 0.1315

ExecutionTime = 0.02 s  ClockTime = 0 s
"""
LAMMPS = """\
Per MPI rank memory allocation (min/avg/max) = 3.088 | 3.088 | 3.088 Mbytes
Step Temp E_pair E_mol TotEng Press
       0            3   -6.7733681            0   -2.2744931   -3.7033504
      50    1.6758903   -4.7955425            0   -2.2823355     5.670064
Loop time of 0.0432 on 1 procs for 50 steps with 4000 atoms

Performance: 500000.000 tau/day, 1157.407 timesteps/s
Pair    | 0.035      | 0.035      | 0.035      |   0.0 | 81.02
Nlocal:           4000 ave        4000 max        4000 min
Histogram: 1 0 0 0 0 0 0 0 0 0
Total # of neighbors = 151513
Step Temp E_pair E_mol TotEng Press
      50    1.6758903   -4.7955425            0   -2.2823355     5.670064
     100    1.6458363   -4.7492704            0   -2.2811332    5.8691042
     150    1.6324555   -4.7286791  nan  -2.280608 5.9589514
"""
RELION = """\
 Estimating initial noise spectra
  1/   1 sec ............................................................~~(,_,">
 Expectation iteration 1 of 25
000/??? sec ~~(,_,">                                                          [oo]\r  2/  2 sec ....~~(,_,">
 Maximization ...
 Expectation iteration 2 of 25
"""

OUTPUTS = {
    "GROMACS": (gromacs_step, GROMACS, [0, 1200, 2400]),
    "OpenFOAM": (openfoam_time, OPENFOAM, [0.0005, 0.001, 1e-05, 0.1315]),
    "LAMMPS": (lammps_step, LAMMPS, [0, 50, 100, 150]),
    "RELION": (relion_iteration, RELION, [1, 2]),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_wherever_the_output_ends_the_last_whole_line_counts(name: str) -> None:
    step_in, output, steps = OUTPUTS[name]
    seen = [step_in(output[:at]) for at in range(len(output) + 1)]
    told = [step for step in seen if step is not None]
    assert seen[0] is None and told[-1] == steps[-1]
    assert list(dict.fromkeys(told)) == steps


@pytest.mark.parametrize("name", OUTPUTS)
def test_wherever_the_output_begins_no_number_is_made_up(name: str) -> None:
    step_in, output, steps = OUTPUTS[name]
    assert {step_in(output[at:]) for at in range(len(output))} <= {*steps, None}


def test_what_mdrun_prints_to_somebody_who_asks_counts_too() -> None:
    printed = "starting mdrun 'Water'\r\n50000 steps, 100.0 ps.\nstep 100, remaining wall clock time: 20 s\r"
    assert gromacs_step(printed + "step 250, will finish Mon Nov 30 04:00:00 2026\r") == 250


def test_lammps_may_take_several_lines_for_a_step() -> None:
    block = "---------------- Step {:8d} ----- CPU =      0.0432 (sec) ----------------\nTotEng = -4.6 KinEng = 1\n"
    assert lammps_step(block.format(100) + block.format(12000)) == 12000


def test_only_the_end_of_a_long_log_is_read(tmp_path) -> None:
    path = tmp_path / "md.log"
    path.write_text("x" * (3 * END_BYTES) + "\n" + GROMACS)
    assert len(read_end(str(path))) == END_BYTES
    assert gromacs_step(read_end(str(path))) == 2400
