-- needs: admin/snapshot
-- Return everything that must agree.
return snapshot()
