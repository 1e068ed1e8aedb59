-- needs: rules/control_call
-- Cancel a run: {call, id, abandon}. Returns the run.

return control_call.make(function(run, args)
  if TERMINAL[run.state] and run.state ~= 'cancelled' then
    return control_call.wrong_state(run.state, 'cancel')
  elseif run.state ~= 'cancelled' then
    control.cancel(run, false, args[3])
  end
end)
