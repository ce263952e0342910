-- The database of a site in PostgreSQL, readable with psql while the controller runs: the tables, columns and views of
-- schema.sql, where each is explained further.
--
-- Integers are BIGINT, also those that are 0 or 1. A sealed column is BYTEA; an empty list or map in it is the text
-- itself: [] or {}. Texts that are compared or sorted are so by their bytes.

CREATE TABLE meta (key TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('epoch', '0'), ('highest_stack', '0'), ('highest_traversal', '0'), ('probe', '0'),
    ('schema', '0'),                  -- how many of the schemas were applied
    ('commit', '0'),                  -- counts commits: a commit whose outcome is unknown is found by it
    ('highest_resource', '0');        -- the highest id that a row of resources ever had

CREATE TABLE stacks (
    id             BIGINT PRIMARY KEY,
    name           TEXT COLLATE "C" NOT NULL UNIQUE,
    action         TEXT NOT NULL,
    status         TEXT NOT NULL,
    status_reason  TEXT NOT NULL,
    revision       BIGINT NOT NULL,
    traversal      BIGINT NOT NULL,
    timeout_s      BIGINT NOT NULL,
    rollback       BIGINT NOT NULL,
    complete       TEXT NOT NULL,    -- JSON: revisions that were COMPLETE, newest first
    outputs        BYTEA NOT NULL,   -- sealed JSON
    parameters     TEXT NOT NULL,    -- JSON, hidden values masked
    events         BIGINT NOT NULL,
    created_at     TEXT NOT NULL,
    updated_at     TEXT NOT NULL,
    delete_first   BIGINT NOT NULL,
    cancelled      BIGINT NOT NULL,  -- 1: a start does not take the operation up again
    failures       TEXT NOT NULL,    -- JSON: what failed in the last operation
    hidden_digests BYTEA NOT NULL,   -- sealed JSON: digests of hidden parameters that may not change, by parameter
    converge       BIGINT NOT NULL,  -- 1: every resource gets a job in the operation
    timed_out      BIGINT NOT NULL,  -- 1: the operation had its time
    entering       BIGINT NOT NULL,  -- 1: a start begins the operation again, because not all of its rows are here
    scope          TEXT,             -- k=v: all nodes of the stack have this label; NULL: any node
    adopt          BIGINT NOT NULL,  -- 1: what the operation would create is taken over as it is
    runs_since     BIGINT            -- seconds since 1970; null: no operation is in progress
);

CREATE TABLE revisions (
    stack_id     BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    source_name  TEXT NOT NULL,
    template     BYTEA NOT NULL,  -- sealed
    files        BYTEA NOT NULL,  -- sealed JSON
    parameters   BYTEA NOT NULL,  -- sealed JSON, as given
    created_at   TEXT NOT NULL,
    environments BYTEA NOT NULL,  -- sealed JSON, as given
    made_by      TEXT NOT NULL,   -- CREATE, UPDATE, ROLLBACK to N
    PRIMARY KEY (stack_id, number)
);

-- A row stands for one physical thing. The row is also a node of the graph: forward while `dropped` is null, else clean-up.
CREATE TABLE resources (
    id             BIGINT PRIMARY KEY,
    physical_id    TEXT NOT NULL,
    stack_id       BIGINT NOT NULL,  -- 0: a lost row
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    node           TEXT,
    revision       BIGINT NOT NULL,
    dropped        BIGINT,
    spec           BYTEA,            -- sealed: the definition's digest, a version byte, then postcard
    handed_over    BIGINT NOT NULL,
    replaces       BIGINT,
    replaced_by    BIGINT,
    action         TEXT,
    status         TEXT,
    status_reason  TEXT,
    applied        BIGINT NOT NULL,
    held_epoch     BIGINT,
    held_number    BIGINT,
    epoch          BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    attempt        BIGINT NOT NULL,
    in_flight      BIGINT NOT NULL,
    retry_count    BIGINT NOT NULL,
    observed_ready BIGINT NOT NULL,
    attributes     BYTEA,            -- sealed JSON: attributes that do not follow from the spec
    retain         BIGINT NOT NULL,
    external_id    TEXT,
    lost_from      TEXT,             -- the stack of a lost row
    observed       TEXT NOT NULL,
    unhealthy      BIGINT NOT NULL,
    hook           TEXT,             -- where the row waits for an operator
    hooks_cleared  BIGINT NOT NULL,
    causes         TEXT,             -- JSON: why each attempt failed
    waits_since    BIGINT,           -- seconds since 1970; null: the row waits neither for signals nor for time
    drift_policy   TEXT,             -- correct, report or ignore; null: as the type says
    corrections    TEXT,             -- JSON: how many, the last (Unix seconds), seconds from the first to that, given up
    cause          TEXT,             -- why the resource has its job; after a failure, why it had its last one; null: an operation
    notes          TEXT,             -- JSON, what the engine remembers: selector, removed, unit, hides_flows
    secret_notes   BYTEA             -- sealed JSON, likewise: hides, signals
);

-- A rollout stands with the row that stands for its set.
CREATE TABLE rollouts (
    row_id      BIGINT PRIMARY KEY,
    traversal   BIGINT NOT NULL,  -- the rollout means nothing to another one
    state       TEXT NOT NULL,    -- going, paused, timed_out, aborted
    reason      TEXT NOT NULL,    -- why it was aborted
    canary      BIGINT NOT NULL,  -- the present batch is the canary's
    well        BIGINT NOT NULL,  -- some member has ended well
    returns     BIGINT NOT NULL,  -- it leads back to what was COMPLETE
    rests_since BIGINT          -- seconds since 1970: when its batch ended; null: it has not
);

-- Members that have nothing to do, or wait to begin, are not in it.
CREATE TABLE rollout_members (
    row_id   BIGINT NOT NULL,
    member   TEXT COLLATE "C" NOT NULL,
    begun    BIGINT NOT NULL,  -- it has begun, and has not ended
    leaving  BIGINT NOT NULL,  -- it has left the set since
    counts   TEXT NOT NULL,    -- nothing, lost, failed
    in_batch BIGINT NOT NULL,  -- of the present batch
    PRIMARY KEY (row_id, member)
);

-- What all members of a set have: the next rollout of just that needs no canary and no pause.
CREATE TABLE proven_sets (
    row_id   BIGINT PRIMARY KEY,
    revision BIGINT NOT NULL,
    source   BYTEA NOT NULL  -- digest of what the set says
);

CREATE TABLE graph (
    needed_by   BIGINT NOT NULL,
    resource_id BIGINT NOT NULL,
    PRIMARY KEY (needed_by, resource_id)
);

CREATE VIEW resource_graph AS
    SELECT r.id AS resource_id, g.needed_by, r.stack_id, r.retry_count, r.observed_ready
    FROM resources r LEFT JOIN graph g ON g.resource_id = r.id;

CREATE VIEW jobs AS
    SELECT id AS resource_id, physical_id, stack_id, node, action, epoch || '.' || number AS generation, attempt, in_flight
    FROM resources WHERE status = 'IN_PROGRESS';

CREATE TABLE nodes (
    name          TEXT COLLATE "C" PRIMARY KEY,
    labels        TEXT NOT NULL,   -- JSON
    seal_public   BYTEA NOT NULL,
    agent_version TEXT NOT NULL,
    revoked       BIGINT NOT NULL,
    joined_at     TEXT NOT NULL,
    last_seen     TEXT,
    token_id      BYTEA NOT NULL,  -- the token that the node joined with
    token_hash    BYTEA NOT NULL,  -- BLAKE3 of that token's secret
    maintenance   BIGINT NOT NULL  -- 1: the node gets no jobs
);

CREATE TABLE tokens (
    id          TEXT COLLATE "C" PRIMARY KEY,
    secret_hash BYTEA NOT NULL,
    expires     BIGINT NOT NULL,
    uses        BIGINT NOT NULL,
    uses_left   BIGINT NOT NULL,
    name        TEXT,
    labels      TEXT NOT NULL,  -- JSON
    rate        TEXT            -- such as 30/m; null: nodes join as fast as they come
);

-- Who may ask over the network.
CREATE TABLE users (
    name        TEXT COLLATE "C" PRIMARY KEY,
    role        TEXT NOT NULL,        -- viewer, operator, admin
    secret_hash BYTEA,                 -- of the token; null: see subject
    expires     BIGINT NOT NULL,      -- seconds since 1970
    scope       TEXT,                 -- k=v: of nodes
    stacks      TEXT,                 -- pattern of stacks' names
    subject     TEXT,                 -- at the identity provider; null: known by a token or a certificate
    logins      TEXT                  -- hash and end of each
);

CREATE TABLE contents (
    name   BYTEA PRIMARY KEY,  -- keyed hash of the content's digest
    digest BYTEA NOT NULL      -- sealed
);

CREATE TABLE content_pieces (
    name   BYTEA NOT NULL,
    number BIGINT NOT NULL,  -- from 0; each piece has 128 KiB, the last one may have less
    bytes  BYTEA NOT NULL,   -- sealed
    PRIMARY KEY (name, number)
);

CREATE TABLE events (
    stack_id    BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    time        TEXT NOT NULL,
    resource    TEXT,
    physical_id TEXT,
    action      TEXT NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    actor       TEXT,               -- who asked for it; NULL: it follows from what happened
    PRIMARY KEY (stack_id, number)
);

-- Who asked for which change, from where, and what was answered. Rows are never changed.
CREATE TABLE audit (
    number    BIGINT PRIMARY KEY,
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
CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        RAISE EXCEPTION 'rows of the audit are never changed';
    END IF;
    IF OLD.number >= coalesce((SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'audit_kept_from'), 0) THEN
        RAISE EXCEPTION 'rows of the audit are removed once they are old enough';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit();
CREATE TRIGGER audit_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit();
CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();

CREATE TABLE flow_devices (
    device         BIGINT PRIMARY KEY,
    node           TEXT NOT NULL,
    bridge         TEXT NOT NULL,
    serial         BIGINT NOT NULL,  -- the newest write
    settled        BIGINT NOT NULL,  -- all writes up to this one are on the device, or failed
    sent_epoch     BIGINT,           -- the batch that may be with the agent, and the newest write in it
    sent_number    BIGINT,
    sent_serial    BIGINT,
    foreign_policy TEXT NOT NULL
);

CREATE TABLE flow_entries (
    device     BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    serial     BIGINT NOT NULL,  -- the write that made the entry so
    owner      BIGINT NOT NULL,  -- a row of resources; 0: the operator; from 2^61 on: an application; from 2^62 on: an intent
    removing   BIGINT NOT NULL,
    mark       TEXT NOT NULL,    -- FAILED, EXPIRED, WRONG, AGAIN, GONE; empty: as `serial` and `settled` say
    reason     TEXT,
    packed     BYTEA NOT NULL,   -- empty where `sealed` has it
    table_id   BIGINT,           -- of a rule, as packed
    priority   BIGINT,
    selector   TEXT,             -- JSON; null for groups and meters
    treatment  TEXT NOT NULL,    -- JSON
    changed_at TEXT NOT NULL,
    sealed     BYTEA,            -- postcard of `packed` and `reason`; null: nothing hidden went into the entry
    PRIMARY KEY (device, id)
);
CREATE INDEX flow_going ON flow_entries (device, serial) WHERE removing = 1;

-- Entries as they were before a write that is not decided.
CREATE TABLE flow_past (
    device   BIGINT NOT NULL,
    id       BIGINT NOT NULL,
    until    BIGINT NOT NULL,  -- the write that replaced it
    serial   BIGINT NOT NULL,
    owner    BIGINT NOT NULL,
    removing BIGINT NOT NULL,
    mark     TEXT NOT NULL,
    packed   BYTEA NOT NULL,
    sealed   BYTEA,            -- as in flow_entries
    PRIMARY KEY (device, id, until)
);
CREATE INDEX flow_past_until ON flow_past (device, until);

-- When the newest writes ended.
CREATE TABLE flow_settled (
    device BIGINT NOT NULL,
    serial BIGINT NOT NULL,
    at     TEXT NOT NULL,
    PRIMARY KEY (device, serial)
);

CREATE TABLE flow_operations (
    id              BIGINT PRIMARY KEY,
    action          TEXT NOT NULL,
    status          TEXT NOT NULL,
    stage           BIGINT NOT NULL,  -- from 0
    stages          BIGINT NOT NULL,
    done            BIGINT NOT NULL,
    total           BIGINT NOT NULL,
    confirm_timeout BIGINT,
    errors          TEXT NOT NULL,    -- JSON
    to_come         BYTEA,            -- postcard: stages after the first, until the operation ends
    begun_at        TEXT NOT NULL,
    changed_at      TEXT NOT NULL
);

-- Stages under way, by device.
CREATE TABLE flow_parts (
    operation BIGINT NOT NULL,
    device    BIGINT NOT NULL,
    serial    BIGINT NOT NULL,
    count     BIGINT NOT NULL,
    PRIMARY KEY (operation, device)
);

-- Names under which operators own rules.
CREATE TABLE flow_applications (
    number BIGINT PRIMARY KEY,   -- the owner of its flow rules is this and 2^61
    name   TEXT COLLATE "C" NOT NULL
);

-- Tables that were forgotten, until their agents know.
CREATE TABLE flow_forgotten (
    node   TEXT COLLATE "C" NOT NULL,
    bridge TEXT COLLATE "C" NOT NULL,
    epoch  BIGINT NOT NULL,  -- earlier decisions belong to the table that was forgotten
    number BIGINT NOT NULL,
    PRIMARY KEY (node, bridge)
);

CREATE TABLE intents (
    number     BIGINT PRIMARY KEY,  -- the owner of the intent's flow rules is this and 2^62
    key        TEXT NOT NULL,
    wish       BYTEA NOT NULL,      -- sealed JSON: what was asked for
    request    TEXT NOT NULL,
    state      TEXT NOT NULL,
    version    BIGINT NOT NULL,
    errors     BIGINT NOT NULL,
    reason     TEXT,
    stands     TEXT NOT NULL,       -- JSON: paths, what the intent holds of them, moves
    owner      BIGINT,              -- a row of resources; null: an operator
    changed_at TEXT NOT NULL
);

-- The network as its agents told it last.
CREATE TABLE topology_devices (
    node       TEXT COLLATE "C" NOT NULL,
    bridge     TEXT COLLATE "C" NOT NULL,
    up         BIGINT NOT NULL,
    ports      TEXT NOT NULL,  -- JSON: name, up, whose LLDP is heard there
    changed_at TEXT NOT NULL,
    PRIMARY KEY (node, bridge)
);

-- Flow rules with their states, for people.
CREATE VIEW flow_rules AS
    SELECT d.node || '/' || d.bridge AS device, lpad(to_hex(e.id), 16, '0') AS id, e.table_id AS "table", e.priority,
        CASE WHEN e.sealed IS NULL THEN e.selector ELSE '******' END AS selector,
        CASE WHEN e.sealed IS NULL THEN e.treatment ELSE '******' END AS treatment,
        CASE
            WHEN e.removing = 1 THEN 'PENDING_REMOVE'
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
