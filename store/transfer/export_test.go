package transfer

// SmallBatches makes a migration one of many small batches.
func SmallBatches(o *Options) { o.traces, o.rows = 40, 15 }
