package move

// SmallBatches sets small batches, so that a migration has many.
func SmallBatches(o *Options) { o.traces, o.rows = 25, 6 }
