-- Version 3: flow tables. `flow_rules` is for people; what it shows lies in `flow_entries`.

CREATE TABLE flow_devices (
    device         INTEGER PRIMARY KEY,
    node           TEXT NOT NULL,
    bridge         TEXT NOT NULL,
    serial         INTEGER NOT NULL, -- of the newest write
    settled        INTEGER NOT NULL, -- all writes up to here are on the device, or failed
    sent_epoch     INTEGER,          -- the batch that may be with the agent, and the newest write in it
    sent_number    INTEGER,
    sent_serial    INTEGER,
    foreign_policy TEXT NOT NULL
);

CREATE TABLE flow_entries (
    device     INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    serial     INTEGER NOT NULL,     -- of the write that made it so
    owner      INTEGER NOT NULL,     -- the row in resources; 0: the operator
    removing   INTEGER NOT NULL,
    mark       TEXT NOT NULL,        -- FAILED, EXPIRED, WRONG, AGAIN, GONE; empty: as `serial` and `settled` say
    reason     TEXT,
    packed     BLOB NOT NULL,
    table_id   INTEGER,              -- of a rule, as packed
    priority   INTEGER,
    selector   TEXT,                 -- JSON; none for groups and meters
    treatment  TEXT NOT NULL,        -- JSON
    changed_at TEXT NOT NULL,
    PRIMARY KEY (device, id)
) WITHOUT ROWID;
CREATE INDEX flow_going ON flow_entries (device, serial) WHERE removing = 1;

-- What entries were before a write that is not decided.
CREATE TABLE flow_past (
    device   INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    until    INTEGER NOT NULL,       -- the write that replaced it
    serial   INTEGER NOT NULL,
    owner    INTEGER NOT NULL,
    removing INTEGER NOT NULL,
    mark     TEXT NOT NULL,
    packed   BLOB NOT NULL,
    PRIMARY KEY (device, id, until)
) WITHOUT ROWID;
CREATE INDEX flow_past_until ON flow_past (device, until);

-- When writes came to their end, the newest.
CREATE TABLE flow_settled (
    device INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    at     TEXT NOT NULL,
    PRIMARY KEY (device, serial)
) WITHOUT ROWID;

CREATE TABLE flow_operations (
    id              INTEGER PRIMARY KEY,
    action          TEXT NOT NULL,
    status          TEXT NOT NULL,
    stage           INTEGER NOT NULL, -- from 0
    stages          INTEGER NOT NULL,
    done            INTEGER NOT NULL,
    total           INTEGER NOT NULL,
    confirm_timeout INTEGER,
    errors          TEXT NOT NULL,    -- JSON
    to_come         BLOB,             -- stages after the first, while it has not ended: postcard
    begun_at        TEXT NOT NULL,
    changed_at      TEXT NOT NULL
);

-- Stages under way, by device.
CREATE TABLE flow_parts (
    operation INTEGER NOT NULL,
    device    INTEGER NOT NULL,
    serial    INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (operation, device)
) WITHOUT ROWID;

CREATE VIEW flow_rules AS
    SELECT d.node || '/' || d.bridge AS device, printf('%016x', e.id) AS id, e.table_id AS "table", e.priority,
        e.selector, e.treatment,
        CASE
            WHEN e.removing THEN 'PENDING_REMOVE'
            WHEN e.mark = 'FAILED' THEN 'FAILED'
            WHEN e.serial > d.settled THEN 'PENDING_ADD'
            WHEN e.mark IN ('EXPIRED', 'GONE') THEN 'EXPIRED'
            WHEN e.mark = '' THEN 'ADDED'
            ELSE 'PENDING_ADD'
        END AS state,
        e.reason AS error,
        CASE WHEN e.owner = 0 THEN 'operator' ELSE
            coalesce((SELECT s.name || '/' || r.name FROM resources r JOIN stacks s ON s.id = r.stack_id WHERE r.id = e.owner),
                'resource ' || e.owner)
        END AS owner,
        e.changed_at
    FROM flow_entries e JOIN flow_devices d USING (device);
