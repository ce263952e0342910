-- Version 1. Readable with sqlite3 on a running site. A later version is a further file, applied in order.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('epoch', '0'), ('highest_stack', '0'), ('highest_traversal', '0'), ('probe', '0');

CREATE TABLE stacks (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    action        TEXT NOT NULL,
    status        TEXT NOT NULL,
    status_reason TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    traversal     INTEGER NOT NULL,
    timeout_s     INTEGER NOT NULL,
    rollback      INTEGER NOT NULL,
    complete      TEXT NOT NULL,  -- JSON: revisions that were COMPLETE, newest first
    outputs       TEXT NOT NULL,  -- JSON
    parameters    TEXT NOT NULL,  -- JSON, hidden ones masked
    events        INTEGER NOT NULL,
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL
);

CREATE TABLE revisions (
    stack_id    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    source_name TEXT NOT NULL,
    template    TEXT NOT NULL,
    files       TEXT NOT NULL,    -- JSON
    parameters  TEXT NOT NULL,    -- JSON, as given
    created_at  TEXT NOT NULL,
    PRIMARY KEY (stack_id, number)
) WITHOUT ROWID;

-- A row stands for one physical thing. It is also its graph node: forward while `dropped` is null, else clean-up.
CREATE TABLE resources (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    physical_id    TEXT NOT NULL,
    stack_id       INTEGER NOT NULL,
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    node           TEXT,
    definition     BLOB NOT NULL,
    revision       INTEGER NOT NULL,
    dropped        INTEGER,
    spec           BLOB,          -- version byte, then postcard
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
    attributes     TEXT           -- JSON: those that do not follow from the spec
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
    labels        TEXT NOT NULL,  -- JSON
    seal_public   BLOB NOT NULL,
    agent_version TEXT NOT NULL,
    revoked       INTEGER NOT NULL,
    joined_at     TEXT NOT NULL,
    last_seen     TEXT,
    token_id      BLOB NOT NULL,  -- of the token it joined with
    token_hash    BLOB NOT NULL   -- BLAKE3 of that token's secret
) WITHOUT ROWID;

CREATE TABLE tokens (
    id          TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL,
    expires     INTEGER NOT NULL,
    uses        INTEGER NOT NULL,
    uses_left   INTEGER NOT NULL,
    name        TEXT,
    labels      TEXT NOT NULL     -- JSON
) WITHOUT ROWID;

CREATE TABLE contents (digest BLOB PRIMARY KEY, bytes BLOB NOT NULL);

CREATE TABLE events (
    stack_id    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    time        TEXT NOT NULL,
    resource    TEXT,
    physical_id TEXT,
    action      TEXT NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    PRIMARY KEY (stack_id, number)
) WITHOUT ROWID;
