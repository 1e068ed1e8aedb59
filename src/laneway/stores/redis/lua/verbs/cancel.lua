-- needs: rules/control
-- Cancel a run: {call, id, abandon}. Returns the run.

return control.steer(function(run, args)
  if TERMINAL[run.state] and run.state ~= 'cancelled' then
    return control.wrong_state(run.state, 'cancel')
  elseif run.state ~= 'cancelled' then
    steering.cancel(run, false, args[3])
  end
end)
