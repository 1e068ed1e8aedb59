-- needs: runtime/base, runtime/replies
-- Return a hash of packed values: {name}.
return replies.hash(unpacked(ARGV[2])[1])
