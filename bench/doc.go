// Command bench measures the cost of a proxied request: it starts one fast
// upstream, nginx, the gateway and a bare front on the gateway's upstream
// client, sends the same load to each in turn, and prints CPU time per request,
// throughput, latency and memory, each as a ratio to nginx in the same run.
// README.md explains the table.
//
// Everything runs on loopback, for a bounded time, pinned to cores, in a
// temporary directory, and is ended by its process id.
package main
