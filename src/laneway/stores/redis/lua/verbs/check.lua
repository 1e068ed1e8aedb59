-- needs: picture
-- Return everything that must agree.
return picture()
