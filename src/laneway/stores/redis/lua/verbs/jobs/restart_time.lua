-- needs: runtime/base, state/job_records
-- Take the time as it is for the latest that a job was written at.

job_records.set_latest(NOW)
base.flush()
return pack(true)
