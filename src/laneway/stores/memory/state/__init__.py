"""What the memory store keeps: records of runs and jobs, workers, and the heaps that order them."""
