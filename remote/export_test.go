package remote

// BoundLog changes how much of what was fed the executor holds.
func (e *Executor) BoundLog(bytes, steps int) { e.fed.bounds = logBounds{bytes, steps} }
