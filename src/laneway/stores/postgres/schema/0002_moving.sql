-- The store's part in a move, if it has or had one; `core.transfer.move_state` explains the phases. `place` is the
-- address of the other store, without a password; `mark` is how far its pieces have arrived, as JSON.
CREATE TABLE moving (
    one int PRIMARY KEY CHECK (one = 1),
    phase text NOT NULL,
    move text NOT NULL,
    place text NOT NULL,
    mark text
);

-- A submission inside a transaction of the user takes no lock of laneway, so a trigger of the table refuses it once the
-- store is shut. The trigger runs with the owner's rights and in this schema, whatever the user's rights and search
-- path. Race: a transaction that inserted before keeps its lock on the table until it ends; freezing the store waits
-- for that lock.
CREATE FUNCTION refuse_if_moved() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    stands text;
    other text;
BEGIN
    SELECT phase, place INTO stands, other FROM moving WHERE phase <> 'arrived';
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF stands = 'arriving' THEN
        RAISE EXCEPTION 'this store is being filled by a move from %; it opens when that is done', other;
    END IF;
    RAISE EXCEPTION 'this store has moved to %; use that address', other USING ERRCODE = 'LW001';
END
$$;
CREATE TRIGGER refuse_if_moved BEFORE INSERT ON inbox FOR EACH STATEMENT EXECUTE FUNCTION refuse_if_moved();
