// Serves the engine of the package chdb over HTTP, as far as clickhouse-go's HTTP mode
// asks: a statement in the body, or an INSERT in the URL with its rows in the body.
// The engine writes its Native format of revision 0, which has no information about
// blocks; the answer to the first question says that the server is of that revision.
import http from "node:http";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.join(process.env.CHDB_FOLDER, "package.json"));
const { Session } = require("chdb");
const session = new Session(process.env.CHDB_DATA);
const settings = new Set(["max_execution_time", "max_query_size", "max_partitions_per_insert_block", "max_ast_elements", "max_expanded_ast_elements"]);
let files = 0;

const text = (s) => Buffer.concat([varint(Buffer.byteLength(s)), Buffer.from(s)]);
const varint = (n) => {
  const out = [];
  for (; n >= 128; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return Buffer.from([...out, n]);
};
const column = (name, type, data) => Buffer.concat([text(name), text(type), Buffer.from([0]), data]);

// hello is a block of the newest revision: who the server is.
function hello() {
  const version = session.query("SELECT version()", "TSV").trim();
  return Buffer.concat([Buffer.from([1, 0, 2, 255, 255, 255, 255, 0, 4, 1]),
    column("displayName()", "String", text("chdb")), column("version()", "String", text(version)),
    column("revision()", "UInt32", Buffer.alloc(4)), column("timezone()", "String", text("UTC"))]);
}

async function run(url, body) {
  const database = url.searchParams.get("database") || "default";
  const inUrl = url.searchParams.get("query");
  let sql = inUrl ?? body.toString("latin1");
  const bytes = inUrl ? Buffer.from(inUrl) : body;
  if (sql.includes("displayName()")) return hello();
  const set = [...url.searchParams].filter(([k]) => settings.has(k)).map(([k, v]) => `${k}=${v}`).join(",");
  if (set) await session.queryAsync("SET " + set);
  await session.queryAsync("USE " + database);
  if (inUrl) {
    const file = path.join(process.env.CHDB_DATA + `-${++files}.native`);
    fs.writeFileSync(file, body);
    try {
      sql = inUrl.replace(/\s+FORMAT\s+Native\s*$/i, "");
      const names = sql.slice(sql.indexOf("(") + 1, sql.lastIndexOf(")"));
      await session.queryAsync(`${sql} SELECT ${names} FROM file('${file}', 'Native')`);
    } finally {
      fs.unlinkSync(file);
    }
    return Buffer.alloc(0);
  }
  const result = await session.queryAsync(bytes.toString(), { format: "Native" });
  return Buffer.from(result.bytes());
}

// One statement at a time: the database and the settings are those of the session.
let last = Promise.resolve();
http.createServer((req, res) => {
  const parts = [];
  req.on("data", (d) => parts.push(d));
  req.on("end", () => {
    const url = new URL(req.url, "http://localhost");
    last = last.then(() => run(url, Buffer.concat(parts))).then((out) => {
      res.writeHead(200, { "Content-Type": "application/octet-stream", "X-ClickHouse-Format": "Native" });
      res.end(out);
    }).catch((err) => {
      const code = /Code: (\d+)/.exec(err.message)?.[1] ?? "1";
      res.writeHead(500, { "X-ClickHouse-Exception-Code": code });
      res.end(err.message.startsWith("Code:") ? err.message : `Code: ${code}. DB::Exception: ${err.message}`);
    });
  });
}).listen(Number(process.env.CHDB_PORT), "127.0.0.1");
