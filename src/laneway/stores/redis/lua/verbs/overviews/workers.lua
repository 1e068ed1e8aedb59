-- needs: runtime/base, admin/worker_list
-- Return the incarnations.
return worker_list.all()
