-- needs: rules/control_call
-- Resume a run: {call, id}. Returns the run.

return control_call.steer(function(run)
  if run.state ~= 'paused' and run.request ~= 'pause' then
    return control_call.wrong_state(run.state, 'resume')
  end
  if run.request ~= 'pause' then
    local call_id = control.call
    control.call = nil
    control.make_due()  -- those of its session that are due by now are before it
    control.call = call_id
  end
  -- Whoever called it may just have ended, and it with it.
  if TERMINAL[run.state] then
    control_call.answer(run)
    return control_call.wrong_state(run.state, 'resume')
  end
  control.resume(run)
end)
