-- Nothing is changed but what a column means, which a laneway of before would misread.
COMMENT ON COLUMN session.unstarted IS 'had not started when the row was written; if it is leased, or was, it has since';
