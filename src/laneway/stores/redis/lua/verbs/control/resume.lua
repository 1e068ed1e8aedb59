-- needs: rules/control_call
-- Resume a run: {call, id}. Returns the run.

return control_call.make(function(run)
  if run.state ~= 'paused' and run.request ~= 'pause' then
    return control_call.wrong_state(run.state, 'resume')
  end
  if run.request ~= 'pause' then
    control.beside(control.make_due)  -- runs of its session that are due by now come before it
  end
  -- The run that called it may just have ended, and this one with it.
  if TERMINAL[run.state] then
    control_call.finish(run)
    return control_call.wrong_state(run.state, 'resume')
  end
  control.resume(run)
end)
