"""What today's ways of saving and resuming do under nine faults, decided by what really happened.

jobs/        the same small training job, once for each way of saving; they use only `recorder`
recorder     inside a job: writes down each step, and stands still or dies where it is told to
trace        what a job wrote down, as values
systems      the ways that are compared: how each is started, where its newest checkpoint is
processes    starts jobs, quickly: from a process that has imported their libraries already
lab          one system with its directory: an uninterrupted run, a killed one to start from, runs of a case
verdict      pure: outcome -> word
syscalls     the calls that change something in a save, and a kill at each
kills, damage, storage, order   the faults
report       the table
"""
