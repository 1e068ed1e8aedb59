-- That a session's run has started is not written to the session's row: it is leased then, or was. So the column names the
-- run that had not started when the row was written. It has another name because a process of an older laneway, which may
-- still run, would take what it says for what is.
ALTER TABLE session RENAME COLUMN unstarted TO unstarted_then;
