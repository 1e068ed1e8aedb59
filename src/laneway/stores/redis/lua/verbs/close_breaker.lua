-- needs: rules/ruling
-- Close a circuit: {key}.

base.allow_full()
circuits.close(unpacked(ARGV[2])[1])
return ruling.done()
