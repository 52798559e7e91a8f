"""What is known of the commands of LAMMPS: which a resumed run repeats, and which must not be repeated.

From the manual of 29 Sep 2021: the page of `read_restart` lists what a restart file holds, each fix's page ends with what it
writes to one. A command that is on no list is not known, and an input with it is refused.
"""

BOX = frozenset({"create_box", "read_data", "read_restart"})

BUILD = frozenset({
    "change_box", "create_atoms", "create_bonds", "delete_atoms", "delete_bonds", "displace_atoms", "group", "minimize",
    "replicate",
    "reset_atom_ids", "reset_mol_ids", "reset_timestep", "set", "velocity",
})  # fmt: skip
"""They change atoms, box or groups, all of which are in a restart file as they are by then."""

SHAPES = frozenset({"units", "atom_style", "dimension", "boundary", "lattice", "region"})
"""Kept, but they say which system it is."""

ONCE = frozenset({"write_coeff", "write_data", "write_dump", "write_restart"})
"""Before the run: they show what the system was at the beginning."""

KEPT = frozenset({
    "angle_coeff", "angle_style", "atom_modify", "atom_style", "balance", "bond_coeff", "bond_style", "boundary", "box",
    "comm_modify", "comm_style", "compute", "compute_modify", "dielectric", "dihedral_coeff", "dihedral_style", "dimension",
    "echo", "fix_modify", "improper_coeff", "improper_style", "info", "kspace_modify", "kspace_style", "lattice", "mass",
    "neigh_modify", "neighbor", "newton", "package", "pair_coeff", "pair_modify", "pair_style", "pair_write", "print",
    "processors", "region", "run_style", "special_bonds", "suffix", "thermo", "thermo_modify", "thermo_style", "timer",
    "timestep", "uncompute", "undump", "unfix", "units",
})  # fmt: skip
KEPT_PREFIXES = ("min_",)

NOT_PLAIN = {
    "clear": "it begins a second simulation",
    "hyper": "it is no plain `run`",
    "if": "what it decides before a restart is not known after it",
    "jump": "a loop or a branch: a step does not tell where in the input it was",
    "label": "a loop or a branch: a step does not tell where in the input it was",
    "neb": "it is no plain `run`",
    "next": "a loop: a step does not tell which turn it was",
    "partition": "several partitions have several restart files",
    "prd": "it is no plain `run`",
    "python": "what it does is not known",
    "quit": "what comes behind it is not known to run",
    "read_dump": "it changes what a restart file holds",
    "rerun": "it has no restart files",
    "tad": "it is no plain `run`",
    "temper": "it is no plain `run`",
    "temper/grem": "it is no plain `run`",
    "temper/npt": "it is no plain `run`",
}

VARIABLES = frozenset({"index", "string", "equal", "atom", "vector", "delete"})
OF_THE_RUN = (
    "cpu", "cpuremain", "cwiggle", "elaplong", "elapsed", "next", "normal", "random", "spcpu", "swiggle", "tpcpu", "vdisplace",
)  # fmt: skip

FIXES = frozenset({
    "addforce", "aveforce", "balance", "deform", "drag", "efield", "enforce2d", "freeze", "gravity", "indent",
    "lineforce", "momentum", "move", "nph", "nph/sphere", "npt", "npt/asphere", "npt/sphere", "nve", "nve/asphere", "nve/limit",
    "nve/noforce", "nve/sphere", "nvt", "nvt/asphere", "nvt/sllod", "nvt/sphere", "planeforce", "press/berendsen", "print",
    "property/atom", "rattle", "restrain", "setforce", "shake", "spring", "spring/self", "store/state", "temp/berendsen",
    "temp/csvr", "temp/rescale", "viscous",
})  # fmt: skip
"""A restart file has their state, or they have none."""
FIX_PREFIXES = ("wall/harmonic", "wall/lj", "wall/morse", "wall/colloid", "wall/reflect")

FIXES_WITH_NOTE = {
    "ave/atom": "what it has summed up since its last output is lost at a resume",
    "ave/chunk": "what it has summed up since its last output is lost at a resume",
    "ave/histo": "what it has summed up since its last output is lost at a resume",
    "ave/time": "what it has summed up since its last output is lost at a resume",
    "brownian": "its random state is in no restart file: a resumed run takes other random numbers",
    "langevin": "its random state is in no restart file: a resumed run takes its random numbers from the beginning",
    "recenter": "its place is that of the atoms at the resume",
}

RANDOM_PAIRS = frozenset({"brownian", "dpd"})

DUMPS = frozenset({"atom", "custom"})
"""Text with the step of each frame."""
