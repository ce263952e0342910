-- Version 9: intents, and the network as it was last heard of.

CREATE TABLE intents (
    number INTEGER PRIMARY KEY,     -- the owner of its flow rules is this and 2^62
    key TEXT NOT NULL,
    wish TEXT NOT NULL,             -- sealed JSON: what was asked for
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    reason TEXT,
    stands TEXT NOT NULL,           -- JSON: paths, what it holds of them, moves
    owner INTEGER,                  -- the row of a resource; null: an operator
    changed_at TEXT NOT NULL
);

CREATE TABLE topology_devices (
    node TEXT NOT NULL,
    bridge TEXT NOT NULL,
    up INTEGER NOT NULL,
    ports TEXT NOT NULL,            -- JSON: name, up, whose LLDP is heard there
    changed_at TEXT NOT NULL,
    PRIMARY KEY (node, bridge)
) WITHOUT ROWID;

-- With intents among the owners.
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
        CASE
            WHEN e.owner IN (0, 9223372036854775807) THEN 'operator'
            WHEN e.owner >= 4611686018427387904 THEN
                'intent ' || coalesce((SELECT i.key FROM intents i WHERE i.number = e.owner - 4611686018427387904), 'that is gone')
            ELSE
            coalesce((SELECT s.name || '/' || r.name FROM resources r JOIN stacks s ON s.id = r.stack_id WHERE r.id = e.owner),
                'resource ' || e.owner)
        END AS owner,
        e.changed_at
    FROM flow_entries e JOIN flow_devices d USING (device);
