-- needs: runtime/base, state/jobbook
-- Take the time as it is for the latest that a job was written at.

jobbook.set_latest(NOW)
base.flush()
return pack(true)
