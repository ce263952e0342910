-- Version 7: values of hidden parameters, as digests, for those that may not change.

ALTER TABLE stacks ADD COLUMN hidden_digests TEXT NOT NULL DEFAULT '{}'; -- sealed JSON, by parameter
