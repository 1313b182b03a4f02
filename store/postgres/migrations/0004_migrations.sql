-- oldest: 1

-- One row while the database is the target of 'svc store migrate': servers do not open
-- it, and the row says how far the migration is.
CREATE TABLE IF NOT EXISTS migration (
	one boolean PRIMARY KEY CHECK (one),
	doc bytea   NOT NULL
);

-- Who has the database open: servers, and migrations that read it. Each renews its row,
-- and one whose time is over has ended.
CREATE TABLE IF NOT EXISTS handles (
	handle bytea  PRIMARY KEY,
	kind   bytea  NOT NULL,
	until  bigint NOT NULL
);
