"""The services of a worker, beside its loop: they renew, reclaim, prune and watch."""
