-- Version 6: rows that wait for signals, or for time to pass.

ALTER TABLE resources ADD COLUMN waits_since INTEGER; -- seconds since 1970; null: it waits for neither
