-- oldest: 1

-- What the caller's program calls itself; client is the caller. Programs that know
-- schema 1 alone write traces without it.
ALTER TABLE traces ADD COLUMN client_name bytea NOT NULL DEFAULT '', ADD COLUMN client_version bytea NOT NULL DEFAULT '';
