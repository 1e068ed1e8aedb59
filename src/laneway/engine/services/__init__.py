"""What runs beside a worker's loop: renewing, reclaiming, pruning and watching."""
