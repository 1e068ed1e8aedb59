-- needs: rules/settings
-- Disable a task, which refuses new runs, or enable it: {task, disabled}. Enabling it closes its circuit.

base.allow_full()
local args = unpacked(ARGV[2])
base.put_in('disabled', args[1], args[2])
if not args[2] then
  circuits.close(args[1])
end
return settings.done()
