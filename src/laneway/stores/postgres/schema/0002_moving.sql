-- The store's part in a move, if it has or had one: `core.transfer.move_state` says what a phase means. `place` is the
-- other store's address, without a password; `mark` is how far its pieces have come, as JSON.
CREATE TABLE moving (
    one int PRIMARY KEY CHECK (one = 1),
    phase text NOT NULL,
    move text NOT NULL,
    place text NOT NULL,
    mark text
);

-- Whoever submits inside a transaction of their own takes no lock of ours, so the table itself refuses them once the
-- store is shut, with the owner's rights and in this schema, whoever they are and wherever they look. Race: one that
-- was let in before has a lock on the table until it ends, which the freezing of the store heeds.
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
