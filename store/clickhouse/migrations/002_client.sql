-- oldest: 1

-- What the caller's program calls itself; client is the caller. Programs that know
-- schema 1 alone write traces without it.
ALTER TABLE traces @CLUSTER ADD COLUMN client_name String AFTER client;
ALTER TABLE traces @CLUSTER ADD COLUMN client_version String AFTER client_name;
