-- needs: rules/control
-- Resume a run: {call, id}. Returns the run.

return control.steer(function(run)
  if run.state ~= 'paused' and run.request ~= 'pause' then
    return control.wrong_state(run.state, 'resume')
  end
  if run.request ~= 'pause' then
    local call_id = steering.call
    steering.call = nil
    steering.make_due()  -- those of its session that are due by now are before it
    steering.call = call_id
  end
  -- Whoever called it may just have ended, and it with it.
  if TERMINAL[run.state] then
    control.answer(run)
    return control.wrong_state(run.state, 'resume')
  end
  steering.resume(run)
end)
