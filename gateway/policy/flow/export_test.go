package flow

// Looked reports whether the mark of the store is known.
func (m *Memory) Looked() bool { return m.watched.looked.Load() }
