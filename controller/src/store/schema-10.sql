-- Version 10: what becomes of drift, nodes in maintenance, updates that look at everything.

ALTER TABLE resources ADD COLUMN drift_policy TEXT;                     -- correct, report or ignore; null: as its type says
ALTER TABLE resources ADD COLUMN corrections TEXT;                      -- JSON: how many, the last (Unix seconds), seconds from the first to that, under way, given up
ALTER TABLE nodes ADD COLUMN maintenance INTEGER NOT NULL DEFAULT 0;    -- it gets no jobs
ALTER TABLE stacks ADD COLUMN converge INTEGER NOT NULL DEFAULT 0;      -- every resource gets a job in its operation
