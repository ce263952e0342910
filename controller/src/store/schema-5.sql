-- Version 5: what operators gave and what was made of it is sealed with the data key, which is not in the database. A
-- sealed value is a blob: format, nonce, XChaCha20-Poly1305 of it, bound to its table, column and row. Sealed are
-- revisions.template, files, parameters and environments, stacks.outputs, resources.spec (with the digest of the
-- definition it was made from) and attributes, and contents. `meta.key` names the key.

ALTER TABLE contents RENAME TO plain_contents;

CREATE TABLE contents (
    name   BLOB PRIMARY KEY, -- keyed hash of the content's digest
    digest BLOB NOT NULL     -- sealed
);

CREATE TABLE content_pieces (
    name   BLOB NOT NULL,
    number INTEGER NOT NULL, -- from 0, each of 128 KiB but the last
    bytes  BLOB NOT NULL,    -- sealed
    PRIMARY KEY (name, number)
);
