-- needs: rules/control_call
-- Pause a run: {call, id}. Returns the run.

return control_call.make(function(run)
  if run.state == 'paused' or run.request == 'pause' then
    return nil
  elseif run.request == 'cancel' then
    return control_call.wrong_state('cancelled', 'pause')
  elseif run.state ~= 'pending' and run.state ~= 'running' then
    return control_call.wrong_state(run.state, 'pause')
  end
  control.pause(run)
end)
