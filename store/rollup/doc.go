// Package rollup has mergeable statistics, and the results that are computed from them.
//
// # Figures
//
// Figures has the code for statistics queries that the engines with rollups share:
// the dimension of a grouping, the words of dimensions, and the result of a query with its
// groups in order.
//
// # Rollup
//
// Rollup computes the mergeable statistics that every store backend stores
// beside its traces, in pure Go: no clock, no storage, no goroutines.
//
// It defines the levels (minute, hour, day), the tables, the partial (aggregate state)
// of a row and its encoding, the merge of partials, the quantiles, and the rows that
// answer a query about a window of time. Backends store the rows; they number the
// values of the dimensions (agents, models, environments) themselves and pass the
// numbers.
//
// A batch of traces is turned into entries once ([Compute]), after de-duplication;
// entries of several batches combine ([Combine]); a stored row and an entry merge
// without decoding the row ([AppendMerged]). Merging is commutative and associative,
// so late traces are counted in their own buckets, and the rows equal a recount
// regardless of the order of arrival.
package rollup
