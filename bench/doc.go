// Command bench measures what a proxied request costs: it starts one fast
// upstream, nginx, the gateway and a bare front on the gateway's upstream
// client, drives them in turn with the same load, and prints CPU time per
// request, throughput, latency and memory, each as a ratio to nginx in the same
// run. README.md says how to read the table.
//
// Everything runs on loopback, for a bounded time, pinned to cores, in a
// temporary directory, and is ended by its process id.
package main
