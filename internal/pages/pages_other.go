//go:build !linux

package pages

func newArea(bytes int, _ bool) (*Area, error) { return &Area{memory: make([]byte, bytes)}, nil }

func newFile(_ string, bytes int) (*Area, error) { return newArea(bytes, false) }

// Populate takes the memory of all of it now. Here it does nothing.
func (a *Area) Populate() {}

// Release gives the pages that lie within [from, to) back. Here they stay until Close.
func (a *Area) Release(_, _ int) {}

// Close gives all of it back.
func (a *Area) Close() { a.memory = nil }
