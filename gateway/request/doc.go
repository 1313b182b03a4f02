// Package request takes one request from its header to its audit line. The root package lists the
// steps (gateway/serve.go); each is a method of [Exchange], or of the session or message in it, and the
// first step that refuses the request ends it.
//
//	header   Admit           input rate limit, Origin and Host, loops        admission.go, origin.go, cors.go
//	   │     Authenticate    key, token or both; the view of the path        authenticate.go
//	body     Read            once, bounded; scanned once (mcp.Scan)          body.go, package session/bodies
//	   │     ResolveDialect  _meta before header, allowed revisions          dialect.go
//	   │     Session         the sealed handle; ids of earlier messages      package multiplex
//	message  Judge           rules, policies of the control plane            judge.go, package verdict
//	   │     Route           routes, the owner of a name                     route.go
//	   │     Approve         what a person must approve                      approval.go
//	   ▼     Forward         to the upstream, through its transport          forward.go, forward_header.go
//	upstream
//	   │     classify        message, stream, acknowledgement or refusal     classify.go
//	   │     take            whole answers and frames: the same steps        answers.go, frames.go
//	   ▼     Observe         one audit line, spans, metrics                  audit_line.go, spans.go
//	client
//
//	GET, DELETE              a stream is resumed, a session ends             resume.go, end_session.go
//
// A step that refuses returns a value of the table in package refusal; Refuse (refuse.go) writes it as
// a response and into the audit line. Streams of one upstream, or merged of several, are package
// streams; stream.go connects a stream to its request.
//
// A [Snapshot] is the compiled form of all configuration that a reload can replace: one immutable
// value. A request uses one snapshot from start to end; a long stream uses the current one for each
// frame.
//
// A message of an upstream takes the same steps whether it is a whole JSON response or a frame of an
// event stream, so that an upstream cannot bypass a step by its choice of content type: it is judged
// ([verdict.Judge]), the upstream of a task that it creates is stored, the revisions that it offers
// are limited to the allowed ones, and the answer to a request gets that request's id.
//
// Anybody can send requests that are refused before their caller is identified, without limit, and
// their lines would cause the rotation to delete all other audit lines. Above a rate they are only
// counted, and one summary line per second contains the counts (refused.go).
//
// failures.go logs the failures of upstreams, with repeated ones aggregated.
package request
