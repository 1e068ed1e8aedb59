-- needs: runtime/base, runtime/replies, admin/present, admin/parked
-- Return the time, the incarnations, the heartbeat, the tasks that are paused and disabled, what is parked, and the
-- circuits.
return replies.list({
  pack(NOW), present.all(), present.heartbeat(), replies.members('paused_tasks'), replies.members('disabled'),
  pack(parked_sets.sizes()), replies.hash('circuits'),
})
