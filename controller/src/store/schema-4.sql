-- Version 4: flow tables that were forgotten, until their agents know.

CREATE TABLE flow_forgotten (
    node   TEXT NOT NULL,
    bridge TEXT NOT NULL,
    epoch  INTEGER NOT NULL, -- what was decided before is of the table that was forgotten
    number INTEGER NOT NULL,
    PRIMARY KEY (node, bridge)
) WITHOUT ROWID;
