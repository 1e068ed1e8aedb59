-- needs: admin/picture
-- Return everything that must agree.
return picture()
