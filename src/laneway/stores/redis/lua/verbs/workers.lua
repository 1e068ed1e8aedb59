-- needs: base, present
-- Return the incarnations.
return present.all()
