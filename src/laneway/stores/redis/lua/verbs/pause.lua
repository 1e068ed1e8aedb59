-- needs: rules/control
-- Pause a run: {call, id}. Returns the run.

return control.steer(function(run)
  if run.state == 'paused' or run.request == 'pause' then
    return nil
  elseif run.request == 'cancel' then
    return control.wrong_state('cancelled', 'pause')
  elseif run.state ~= 'pending' and run.state ~= 'running' then
    return control.wrong_state(run.state, 'pause')
  end
  steering.pause(run)
end)
