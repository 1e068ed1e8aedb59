"""Jobs, decided. Stores write what is said here.

`record` and `tie` are what is kept of a job, `job` and `fires` what people see of it; `planning` says when it fires
next (`anchoring`: counted from when), `slots` what is due of it, `firing` what a fire makes, `holding` what failures
do, `after` what a fire and the end of a run make of the job.
"""
