"""The process that holds snapshots in memory and writes them out, so that the job's death does not stop a save."""
