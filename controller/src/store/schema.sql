-- The database of a site, readable with sqlite3 while the controller runs.
--
-- Sealed columns hold what operators gave and what was made of it. A sealed value is a blob: a format byte, a nonce and
-- XChaCha20-Poly1305 with the data key, bound to its table, column and row. The data key is not in the database;
-- `meta.key` names it. An empty list or map is not sealed.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('epoch', '0'), ('highest_stack', '0'), ('highest_traversal', '0'), ('probe', '0');

CREATE TABLE stacks (
    id             INTEGER PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    action         TEXT NOT NULL,
    status         TEXT NOT NULL,
    status_reason  TEXT NOT NULL,
    revision       INTEGER NOT NULL,
    traversal      INTEGER NOT NULL,
    timeout_s      INTEGER NOT NULL,
    rollback       INTEGER NOT NULL,
    complete       TEXT NOT NULL,     -- JSON: revisions that were COMPLETE, newest first
    outputs        TEXT NOT NULL,     -- sealed JSON
    parameters     TEXT NOT NULL,     -- JSON, hidden values masked
    events         INTEGER NOT NULL,
    created_at     TEXT NOT NULL,
    updated_at     TEXT NOT NULL,
    delete_first   INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,  -- 1: a start does not take the operation up again
    failures       TEXT NOT NULL,     -- JSON: what failed in the last operation
    hidden_digests TEXT NOT NULL,     -- sealed JSON: digests of hidden parameters that may not change, by parameter
    converge       INTEGER NOT NULL,  -- 1: every resource gets a job in the operation
    timed_out      INTEGER NOT NULL,  -- 1: the operation had its time
    entering       INTEGER NOT NULL,  -- 1: a start begins the operation again, because not all of its rows are here
    scope          TEXT,              -- k=v: all nodes of the stack have this label; NULL: any node
    adopt          INTEGER NOT NULL,  -- 1: what the operation would create is taken over as it is
    runs_since     INTEGER            -- seconds since 1970; null: no operation is in progress
);

CREATE TABLE revisions (
    stack_id     INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    source_name  TEXT NOT NULL,
    template     TEXT NOT NULL,       -- sealed
    files        TEXT NOT NULL,       -- sealed JSON
    parameters   TEXT NOT NULL,       -- sealed JSON, as given
    created_at   TEXT NOT NULL,
    environments TEXT NOT NULL,       -- sealed JSON, as given
    made_by      TEXT NOT NULL,       -- CREATE, UPDATE, ROLLBACK to N
    PRIMARY KEY (stack_id, number)
) WITHOUT ROWID;

-- A row stands for one physical thing. The row is also a node of the graph: forward while `dropped` is null, else clean-up.
CREATE TABLE resources (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    physical_id    TEXT NOT NULL,
    stack_id       INTEGER NOT NULL,  -- 0: a lost row
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    node           TEXT,
    revision       INTEGER NOT NULL,
    dropped        INTEGER,
    spec           BLOB,              -- sealed: the definition's digest, a version byte, then postcard
    handed_over    INTEGER NOT NULL,
    replaces       INTEGER,
    replaced_by    INTEGER,
    action         TEXT,
    status         TEXT,
    status_reason  TEXT,
    applied        INTEGER NOT NULL,
    held_epoch     INTEGER,
    held_number    INTEGER,
    epoch          INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    in_flight      INTEGER NOT NULL,
    retry_count    INTEGER NOT NULL,
    observed_ready INTEGER NOT NULL,
    attributes     TEXT,              -- sealed JSON: attributes that do not follow from the spec
    retain         INTEGER NOT NULL,
    external_id    TEXT,
    lost_from      TEXT,              -- the stack of a lost row
    observed       TEXT NOT NULL,
    unhealthy      INTEGER NOT NULL,
    hook           TEXT,              -- where the row waits for an operator
    hooks_cleared  INTEGER NOT NULL,
    causes         TEXT,              -- JSON: why each attempt failed
    waits_since    INTEGER,           -- seconds since 1970; null: the row waits neither for signals nor for time
    drift_policy   TEXT,              -- correct, report or ignore; null: as the type says
    corrections    TEXT,              -- JSON: how many, the last (Unix seconds), seconds from the first to that, given up
    cause          TEXT,              -- why the resource has its job; after a failure, why it had its last one; null: an operation
    notes          TEXT,              -- JSON, what the engine remembers: selector, removed, unit, hides_flows
    secret_notes   BLOB               -- sealed JSON, likewise: hides, signals
);

-- A rollout stands with the row that stands for its set.
CREATE TABLE rollouts (
    row_id      INTEGER PRIMARY KEY,
    traversal   INTEGER NOT NULL,     -- the rollout means nothing to another one
    state       TEXT NOT NULL,        -- going, paused, timed_out, aborted
    reason      TEXT NOT NULL,        -- why it was aborted
    canary      INTEGER NOT NULL,     -- the present batch is the canary's
    well        INTEGER NOT NULL,     -- some member has ended well
    returns     INTEGER NOT NULL,     -- it leads back to what was COMPLETE
    rests_since INTEGER             -- seconds since 1970: when its batch ended; null: it has not
);

-- Members that have nothing to do, or wait to begin, are not in it.
CREATE TABLE rollout_members (
    row_id   INTEGER NOT NULL,
    member   TEXT NOT NULL,
    begun    INTEGER NOT NULL,      -- it has begun, and has not ended
    leaving  INTEGER NOT NULL,      -- it has left the set since
    counts   TEXT NOT NULL,         -- nothing, lost, failed
    in_batch INTEGER NOT NULL,      -- of the present batch
    PRIMARY KEY (row_id, member)
) WITHOUT ROWID;

-- What all members of a set have: the next rollout of just that needs no canary and no pause.
CREATE TABLE proven_sets (
    row_id   INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    source   BLOB NOT NULL          -- digest of what the set says
);

CREATE TABLE graph (
    needed_by   INTEGER NOT NULL,
    resource_id INTEGER NOT NULL,
    PRIMARY KEY (needed_by, resource_id)
) WITHOUT ROWID;

CREATE VIEW resource_graph AS
    SELECT r.id AS resource_id, g.needed_by, r.stack_id, r.retry_count, r.observed_ready
    FROM resources r LEFT JOIN graph g ON g.resource_id = r.id;

CREATE VIEW jobs AS
    SELECT id AS resource_id, physical_id, stack_id, node, action, epoch || '.' || number AS generation, attempt, in_flight
    FROM resources WHERE status = 'IN_PROGRESS';

CREATE TABLE nodes (
    name          TEXT PRIMARY KEY,
    labels        TEXT NOT NULL,      -- JSON
    seal_public   BLOB NOT NULL,
    agent_version TEXT NOT NULL,
    revoked       INTEGER NOT NULL,
    joined_at     TEXT NOT NULL,
    last_seen     TEXT,
    token_id      BLOB NOT NULL,      -- the token that the node joined with
    token_hash    BLOB NOT NULL,      -- BLAKE3 of that token's secret
    maintenance   INTEGER NOT NULL    -- 1: the node gets no jobs
) WITHOUT ROWID;

CREATE TABLE tokens (
    id          TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL,
    expires     INTEGER NOT NULL,
    uses        INTEGER NOT NULL,
    uses_left   INTEGER NOT NULL,
    name        TEXT,
    labels      TEXT NOT NULL,        -- JSON
    rate        TEXT                  -- such as 30/m; null: nodes join as fast as they come
) WITHOUT ROWID;

-- Who may ask over the network.
CREATE TABLE users (
    name        TEXT PRIMARY KEY,
    role        TEXT NOT NULL,        -- viewer, operator, admin
    secret_hash BLOB,                 -- of the token; null: see subject
    expires     INTEGER NOT NULL,      -- seconds since 1970
    scope       TEXT,                  -- k=v: of nodes
    stacks      TEXT,                  -- pattern of stacks' names
    subject     TEXT,                  -- at the identity provider; null: known by a token or a certificate
    logins      TEXT                   -- hash and end of each
) WITHOUT ROWID;

CREATE TABLE contents (
    name   BLOB PRIMARY KEY,          -- keyed hash of the content's digest
    digest BLOB NOT NULL              -- sealed
);

CREATE TABLE content_pieces (
    name   BLOB NOT NULL,
    number INTEGER NOT NULL,          -- from 0; each piece has 128 KiB, the last one may have less
    bytes  BLOB NOT NULL,             -- sealed
    PRIMARY KEY (name, number)
);

CREATE TABLE events (
    stack_id    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    time        TEXT NOT NULL,
    resource    TEXT,
    physical_id TEXT,
    action      TEXT NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    actor       TEXT,               -- who asked for it; NULL: it follows from what happened
    PRIMARY KEY (stack_id, number)
) WITHOUT ROWID;

-- Who asked for which change, from where, and what was answered. Rows are never changed.
CREATE TABLE audit (
    number    INTEGER PRIMARY KEY,
    at        TEXT NOT NULL,
    actor     TEXT NOT NULL,
    came_from TEXT NOT NULL,
    action    TEXT NOT NULL,
    target    TEXT NOT NULL,
    what      TEXT NOT NULL,
    result    TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, number);
CREATE TRIGGER audit_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'rows of the audit are never changed'); END;
-- REPLACE is no UPDATE.
CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
    BEGIN SELECT RAISE(ABORT, 'rows of the audit are never changed'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit
    WHEN OLD.number >= coalesce((SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'audit_kept_from'), 0)
    BEGIN SELECT RAISE(ABORT, 'rows of the audit are removed once they are old enough'); END;

CREATE TABLE flow_devices (
    device         INTEGER PRIMARY KEY,
    node           TEXT NOT NULL,
    bridge         TEXT NOT NULL,
    serial         INTEGER NOT NULL,  -- the newest write
    settled        INTEGER NOT NULL,  -- all writes up to this one are on the device, or failed
    sent_epoch     INTEGER,           -- the batch that may be with the agent, and the newest write in it
    sent_number    INTEGER,
    sent_serial    INTEGER,
    foreign_policy TEXT NOT NULL
);

CREATE TABLE flow_entries (
    device     INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    serial     INTEGER NOT NULL,      -- the write that made the entry so
    owner      INTEGER NOT NULL,      -- a row of resources; 0: the operator; from 2^61 on: an application; from 2^62 on: an intent
    removing   INTEGER NOT NULL,
    mark       TEXT NOT NULL,         -- FAILED, EXPIRED, WRONG, AGAIN, GONE; empty: as `serial` and `settled` say
    reason     TEXT,
    packed     BLOB NOT NULL,         -- empty where `sealed` has it
    table_id   INTEGER,               -- of a rule, as packed
    priority   INTEGER,
    selector   TEXT,                  -- JSON; null for groups and meters
    treatment  TEXT NOT NULL,         -- JSON
    changed_at TEXT NOT NULL,
    sealed     BLOB,                  -- postcard of `packed` and `reason`; null: nothing hidden went into the entry
    PRIMARY KEY (device, id)
) WITHOUT ROWID;
CREATE INDEX flow_going ON flow_entries (device, serial) WHERE removing = 1;

-- Entries as they were before a write that is not decided.
CREATE TABLE flow_past (
    device   INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    until    INTEGER NOT NULL,        -- the write that replaced it
    serial   INTEGER NOT NULL,
    owner    INTEGER NOT NULL,
    removing INTEGER NOT NULL,
    mark     TEXT NOT NULL,
    packed   BLOB NOT NULL,
    sealed   BLOB,                    -- as in flow_entries
    PRIMARY KEY (device, id, until)
) WITHOUT ROWID;
CREATE INDEX flow_past_until ON flow_past (device, until);

-- When the newest writes ended.
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
    to_come         BLOB,             -- postcard: stages after the first, until the operation ends
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

-- Names under which operators own rules.
CREATE TABLE flow_applications (
    number INTEGER PRIMARY KEY,   -- the owner of its flow rules is this and 2^61
    name   TEXT NOT NULL
);

-- Tables that were forgotten, until their agents know.
CREATE TABLE flow_forgotten (
    node   TEXT NOT NULL,
    bridge TEXT NOT NULL,
    epoch  INTEGER NOT NULL,          -- earlier decisions belong to the table that was forgotten
    number INTEGER NOT NULL,
    PRIMARY KEY (node, bridge)
) WITHOUT ROWID;

CREATE TABLE intents (
    number     INTEGER PRIMARY KEY,   -- the owner of the intent's flow rules is this and 2^62
    key        TEXT NOT NULL,
    wish       TEXT NOT NULL,         -- sealed JSON: what was asked for
    request    TEXT NOT NULL,
    state      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    errors     INTEGER NOT NULL,
    reason     TEXT,
    stands     TEXT NOT NULL,         -- JSON: paths, what the intent holds of them, moves
    owner      INTEGER,               -- a row of resources; null: an operator
    changed_at TEXT NOT NULL
);

-- The network as its agents told it last.
CREATE TABLE topology_devices (
    node       TEXT NOT NULL,
    bridge     TEXT NOT NULL,
    up         INTEGER NOT NULL,
    ports      TEXT NOT NULL,         -- JSON: name, up, whose LLDP is heard there
    changed_at TEXT NOT NULL,
    PRIMARY KEY (node, bridge)
) WITHOUT ROWID;

-- Flow rules with their states, for people.
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
            WHEN e.owner = 0 THEN 'operator'
            WHEN e.owner >= 4611686018427387904 THEN
                'intent ' || coalesce((SELECT i.key FROM intents i WHERE i.number = e.owner - 4611686018427387904), 'that is gone')
            WHEN e.owner >= 2305843009213693952 THEN
                'application ' || coalesce((SELECT a.name FROM flow_applications a WHERE a.number = e.owner - 2305843009213693952), 'that is gone')
            ELSE
            coalesce((SELECT s.name || '/' || r.name FROM resources r JOIN stacks s ON s.id = r.stack_id WHERE r.id = e.owner),
                'resource ' || e.owner)
        END AS owner,
        e.changed_at
    FROM flow_entries e JOIN flow_devices d USING (device);
