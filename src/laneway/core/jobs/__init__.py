"""The rules of jobs. Stores write what is decided here.

`record` is what is kept of a job; `job` and `fires` are what people see of it. `plan` says when it fires next, `anchor`
from when its periods count. `slots` are the fires that are due, `fire_decision` says what a fire makes, `failure_hold`
what failures do, and `after` what a fire and the end of a run change.
"""
