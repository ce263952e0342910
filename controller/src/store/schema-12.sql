-- Version 12: why a resource has its job, what the engine remembers of it, stacks that had their time.

ALTER TABLE stacks ADD COLUMN timed_out INTEGER NOT NULL DEFAULT 0;        -- its operation had its time
ALTER TABLE resources ADD COLUMN cause TEXT NOT NULL DEFAULT 'traversal';  -- of the present job; after a failure, of the last one
ALTER TABLE resources ADD COLUMN notes TEXT;                               -- JSON: selector, removed, unit, hides_flows
ALTER TABLE resources ADD COLUMN secret_notes BLOB;                        -- sealed JSON: hides, signals
