-- needs: runtime/base, admin/present
-- Return the incarnations.
return present.all()
