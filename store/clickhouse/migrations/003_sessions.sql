-- oldest: 1

-- Between which times sessions have traces: a session is short beside what a tenant has,
-- and its traces are looked for there alone.
CREATE TABLE IF NOT EXISTS sessions @CLUSTER (
	month   UInt16, -- 30 days of created
	tenant  String,
	session String,
	first   Int64,
	last    Int64
) ENGINE PARTITION BY month ORDER BY (tenant, session) SETTINGS index_granularity = 256, parts_to_delay_insert = 1000, parts_to_throw_insert = 3000;

-- Views are written in the order of their names: a trace whose id is found when it is sent
-- again has its session, too.
CREATE MATERIALIZED VIEW IF NOT EXISTS bounds_of_sessions @CLUSTER TO sessions AS
	SELECT toUInt16(intDiv(day, 30)) AS month, tenant, session, min(created) AS first, max(created) AS last FROM traces WHERE session != '' GROUP BY month, tenant, session;

-- Traces that were created before are not in sessions: the view came later.
CREATE TABLE IF NOT EXISTS sessions_since @CLUSTER (created Int64) ENGINE ORDER BY created;
INSERT INTO sessions_since SELECT if(count() = 0, toInt64(0), max(created) + 3600000000000) FROM traces;
