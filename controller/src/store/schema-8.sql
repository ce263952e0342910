-- Version 8: flow entries that something hidden went into are sealed, each with why it is so. What others can read of
-- them is then empty; entries of before are sealed in the same transaction. Only operators own anything as 0.

ALTER TABLE flow_entries ADD COLUMN sealed BLOB; -- postcard of `packed` and `reason`; null: nothing hidden is in it
ALTER TABLE flow_past ADD COLUMN sealed BLOB;

DROP VIEW flow_rules;
CREATE VIEW flow_rules AS
    SELECT d.node || '/' || d.bridge AS device, printf('%016x', e.id) AS id, e.table_id AS "table", e.priority,
        CASE WHEN e.sealed IS NULL THEN e.selector ELSE '******' END AS selector,
        CASE WHEN e.sealed IS NULL THEN e.treatment ELSE '******' END AS treatment,
        CASE
            WHEN e.removing THEN 'PENDING_REMOVE'
            WHEN e.mark = 'FAILED' THEN 'FAILED'
            WHEN e.serial > d.settled THEN 'PENDING_ADD'
            WHEN e.mark IN ('EXPIRED', 'GONE') THEN 'EXPIRED'
            WHEN e.mark = '' THEN 'ADDED'
            ELSE 'PENDING_ADD'
        END AS state,
        CASE WHEN e.sealed IS NOT NULL AND e.mark IN ('FAILED', 'WRONG', 'AGAIN') THEN '******' ELSE e.reason END AS error,
        CASE WHEN e.owner = 0 THEN 'operator' ELSE
            coalesce((SELECT s.name || '/' || r.name FROM resources r JOIN stacks s ON s.id = r.stack_id WHERE r.id = e.owner),
                'resource ' || e.owner)
        END AS owner,
        e.changed_at
    FROM flow_entries e JOIN flow_devices d USING (device);
