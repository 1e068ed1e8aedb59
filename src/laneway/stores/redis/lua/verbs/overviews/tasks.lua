-- needs: runtime/base, runtime/replies, admin/worker_list, admin/parked_sets
-- Return the time, the incarnations, the heartbeat, the tasks that are paused and disabled, what is parked, and the
-- circuits.
return replies.list({
  pack(NOW), worker_list.all(), worker_list.heartbeat(), replies.members('paused_tasks'), replies.members('disabled'),
  pack(parked_sets.sizes()), replies.hash('circuits'),
})
