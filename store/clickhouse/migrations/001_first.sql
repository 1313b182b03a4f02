-- oldest: 1

-- Traces of each tenant, oldest first. A trace that was sent again while the answer to
-- it was lost may be there twice: readers show each id once.
CREATE TABLE IF NOT EXISTS traces @CLUSTER (
	day        UInt16, -- of created, since 1970: whole days are dropped
	committed  UInt16, -- day of seq
	tenant     String,
	created    Int64,  -- nanoseconds
	seq        Int64,  -- place in the order of commits of the writer
	writer     UInt64,
	id         String,
	again      Int64,  -- creation of the removed trace that had the id before; 0: none had
	agent      String,
	agent_name String,
	error      UInt8,
	blocked    UInt8,
	env        String,
	team       String, -- of the agent when the trace was recorded, for statistics
	session    String,
	provider   String,
	model      String,
	tool       String,
	request    String,
	client     String,
	client_name    String, -- what the caller's program calls itself; client is the caller
	client_version String,
	rule       String,
	reason     String,
	error_kind String,
	approval    String, -- its outcome; empty: nothing asked for one
	approval_id String,
	approved_by String,
	input      Int64,
	output     Int64,
	cache_read Int64,
	cache_made Int64,
	cost       Int64,
	duration   Int64,
	bin        UInt16, -- of the duration in sketches
	score      Float64,
	pii        Array(String),
	labels     Array(String), -- of the caller when the call was judged
	sets       Array(String), -- those that its answer set
	policies   Array(String), -- ids of those that fired, each once
	fired      String,
	scores     String,
	spans      String,
	call_tools  Array(String),
	call_counts Array(Int64)
) ENGINE PARTITION BY day ORDER BY (tenant, created, seq) SETTINGS index_granularity = 1024, parts_to_delay_insert = 1000, parts_to_throw_insert = 3000;

-- Where the trace with an id is.
CREATE TABLE IF NOT EXISTS ids @CLUSTER (
	month   UInt16, -- 30 days of created
	tenant  String,
	id      String,
	created Int64,
	seq     Int64,
	writer  UInt64
) ENGINE PARTITION BY month ORDER BY (tenant, id) SETTINGS index_granularity = 256, parts_to_delay_insert = 1000, parts_to_throw_insert = 3000;

CREATE MATERIALIZED VIEW IF NOT EXISTS ids_of_traces @CLUSTER TO ids AS
	SELECT toUInt16(intDiv(day, 30)) AS month, tenant, id, created, seq, writer FROM traces;

-- Traces in the order of commits, with what statistics need: followers read it, and
-- statistics of what is not merged yet.
CREATE TABLE IF NOT EXISTS feed @CLUSTER (
	committed  UInt16,
	tenant     String,
	seq        Int64,
	writer     UInt64,
	created    Int64,
	id         String,
	again      Int64,
	agent      String,
	agent_name String,
	error      UInt8,
	blocked    UInt8,
	env        String,
	team       String,
	provider   String,
	model      String,
	input      Int64,
	output     Int64,
	cost       Int64,
	duration   Int64,
	bin        UInt16,
	tool        String,
	rule        String,
	client_name String,
	reason      String,
	policies   Array(String),
	call_tools  Array(String),
	call_counts Array(Int64)
) ENGINE PARTITION BY committed ORDER BY (tenant, seq, writer) SETTINGS index_granularity = 1024, parts_to_delay_insert = 1000, parts_to_throw_insert = 3000;

CREATE MATERIALIZED VIEW IF NOT EXISTS feed_of_traces @CLUSTER TO feed AS
	SELECT committed, tenant, seq, writer, created, id, again, agent, agent_name, error, blocked, env, team, provider, model,
		input, output, cost, duration, bin, tool, rule, client_name, reason, policies, call_tools, call_counts FROM traces;

-- Merged statistics. A row counts where its day has its version in the newest generation.
CREATE TABLE IF NOT EXISTS rollups @CLUSTER (
	tenant  String,
	tbl     UInt8, -- store/rollup numbers them
	bucket  UInt32,
	agent   String,
	model   String,
	env     String, -- the name in tables of names
	day     UInt16,
	version Int64,
	traces  Int64,
	errors  Int64,
	cost    Int64,
	data    String
) ENGINE PARTITION BY intDiv(day, 30) ORDER BY (tenant, tbl, bucket, agent, model, env, version) SETTINGS index_granularity = 1024;

-- The uses of tools and the fires of policies, merged likewise: of all days together.
CREATE TABLE IF NOT EXISTS uses @CLUSTER (
	tenant  String,
	version Int64,
	agent   String, -- empty: tool is a policy that fired
	tool    String,
	first   Int64,
	last    Int64,
	calls   Int64
) ENGINE ORDER BY (tenant, version, agent, tool) SETTINGS index_granularity = 1024;

-- Generations of merged statistics: what was committed up to seq, in these versions of days.
CREATE TABLE IF NOT EXISTS generations @CLUSTER (
	tenant   String,
	seq      Int64,
	version  Int64,
	days     Array(UInt16),
	versions Array(Int64)
) ENGINE ORDER BY (tenant, seq, version) SETTINGS index_granularity = 64;

-- What is older is not shown any more; statistics by the minute begin at minutes.
CREATE TABLE IF NOT EXISTS horizons @CLUSTER (
	tenant  String,
	created Int64,
	minutes Int64
) ENGINE ORDER BY tenant SETTINGS index_granularity = 64;

-- Tenants that have their traces on this shard, since when.
CREATE TABLE IF NOT EXISTS homes @CLUSTER (
	tenant String,
	since  Int64
) ENGINE ORDER BY tenant SETTINGS index_granularity = 64;

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
