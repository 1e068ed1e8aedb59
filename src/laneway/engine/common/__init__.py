"""What every part of the engine uses: clock, ids, processes, threads and the wake-up."""
