-- needs: rules/settings
-- Close a circuit: {key}.

base.allow_full()
circuits.close(unpacked(ARGV[2])[1])
return settings.done()
