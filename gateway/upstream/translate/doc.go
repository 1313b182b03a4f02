// Package translate is a transport that lets clients of either protocol generation use an upstream of
// either. A message is forwarded unchanged if both support the same generation, which costs one
// comparison. Requests are translated after the rules were applied, and responses before.
// docs/generations.md lists what is translated and what is not.
//
//	client ─▶ translate.go ──┬── same generation ───────────────────────────▶ upstream
//	                         │
//	   2026-07-28            ├─▶ to_legacy.go ── to_legacy_pool.go ─────────▶ session at it
//	                         │     │              one call at a time
//	                         │     ├── _call      the call, _stream its messages
//	                         │     ├── _input     its question becomes input_required; the call is held
//	                         │     │              (_held) until the client's retry (_retry: at another replica)
//	                         │     └── _listen    a subscription, _standalone the stream of GET
//	                         │
//	   sessions, 2025-11-25  └─▶ to_modern.go ── session.go ─────────────────▶ requests without session
//	                               │              the id contains the initialize
//	                               ├── _call      the call, _result its answer
//	                               ├── _questions requests for the client, until it answers
//	                               └── _listen    subscriptions become one listen
//
//	wire.go      responses and streams of both directions      quota.go   limits of both directions
//	handover.go  messages between replicas
//
// # Clients of 2026-07-28 at servers with sessions
//
// [ToLegacy] opens sessions on behalf of clients and keeps them in a pool: a session has one call
// at a time and is reused only for the same principal with the same credentials, clientInfo
// and capabilities. A server request during a call, here called a question, becomes the
// result input_required; the call is held until the client sends the request again with its
// answer, or a timeout.
//
// # Clients with sessions at servers of 2026-07-28
//
// With [ToModern] a session id contains the client's declarations of its initialize: the gateway
// stores nothing about the session, so that it is valid after a restart. Stored, as long as
// needed, are the server requests (here called questions) that a client has not
// answered, the calls that it may cancel, and the resources that it is subscribed to.
//
// # What waits for the answer to a question
//
// The directions are mirror images: each holds the end open that the other has closed. They share the
// limits and the writing of messages, and no type.
//
//	                     client of 2026-07-28               client with a session
//	open meanwhile       the request at the upstream        the request of the client
//	type                 callToLegacy, in held              callToModern, its round in questions
//	named by             requestState (state.go)            the id of the question
//	continues with       another request (retry)            a response that is posted (answered)
//	at another replica   gets the request, and returns      gets the answer alone
//	                     all messages of the call
//	without an answer    is canceled at the upstream        ends with an error for the client
//
// # Replicas
//
// An [Exchange] passes messages between the replicas of a gateway that share a Redis: for an answer
// of a client that reaches another replica than the one that holds the call. Each replica has a
// mailbox, and each passed request has one for the responses. The texts are sealed with a key that
// the replicas share, so that readers of the store learn nothing from them. Without a store nothing
// can be passed.
package translate
