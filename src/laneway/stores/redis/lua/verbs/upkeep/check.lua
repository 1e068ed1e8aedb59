-- needs: admin/snapshot
-- Return a snapshot of everything that must agree.
return snapshot()
