-- Version 2: convergence in full.

ALTER TABLE stacks ADD COLUMN delete_first INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stacks ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;    -- nothing of its operation is taken up again
ALTER TABLE stacks ADD COLUMN failures TEXT NOT NULL DEFAULT '[]';      -- JSON: what failed in the last operation

ALTER TABLE revisions ADD COLUMN environments TEXT NOT NULL DEFAULT '[]'; -- JSON, as given
ALTER TABLE revisions ADD COLUMN made_by TEXT NOT NULL DEFAULT '';        -- CREATE, UPDATE, ROLLBACK to N

ALTER TABLE resources ADD COLUMN retain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN external_id TEXT;
ALTER TABLE resources ADD COLUMN lost_from TEXT;                        -- the stack of a row whose node was removed; then stack_id is 0
ALTER TABLE resources ADD COLUMN observed TEXT NOT NULL DEFAULT 'unknown';
ALTER TABLE resources ADD COLUMN unhealthy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN hook TEXT;                             -- where it waits for an operator
ALTER TABLE resources ADD COLUMN hooks_cleared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN causes TEXT;                           -- JSON: why each attempt failed
