-- Version 11: how fast nodes may join.

ALTER TABLE tokens ADD COLUMN rate TEXT;    -- such as 30/m; null: as fast as they come
