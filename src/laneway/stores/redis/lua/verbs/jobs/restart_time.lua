-- needs: runtime/base, state/job_records
-- Set the latest time at which a job was written to now.

job_records.set_latest(NOW)
base.flush()
return pack(true)
