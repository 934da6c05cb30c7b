package serving

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/pages"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Bytes of a parameter that lies in a file.
const (
	leastTable = 64 << 20
	mostTable  = 1 << 46
)

// tables are the parameters of a model that lie in files. While requests read a table, its next state goes to a second table, which still has the state before. So the model reads only what two states of a
// source have changed. One table of each name waits for the next state; further ones go back to the system.
type tables struct {
	tablesOf

	mu     sync.Mutex
	free   []*table
	closed bool
}

// tablesOf says which parameters lie in files, and where.
type tablesOf struct {
	dir   string
	least int64 // bytes
}

// A table is one parameter in a file.
type table struct {
	of     *tables
	name   string
	area   *pages.Area
	tensor *tensor.Tensor
	state  State // of a source that it has; nil: none, or a part
	users  int   // versions that have it; of.mu guards it
}

// holds reports whether a parameter lies in a file.
func (ts *tables) holds(elements int64, dtype tensor.DType) bool {
	size := int64(dtype.Size())
	return size > 1 && elements >= (ts.least+size-1)/size && elements <= mostTable/size
}

// take returns a table that no version has, whatever its elements are. Its caller releases it.
func (ts *tables) take(name string, dtype tensor.DType, dims []int64) (*table, error) {
	ts.mu.Lock()
	at := slices.IndexFunc(ts.free, func(t *table) bool {
		return t.name == name && t.tensor.DType() == dtype && slices.Equal(t.tensor.Dims(), dims)
	})
	if at >= 0 {
		t := ts.free[at]
		ts.free = slices.Delete(ts.free, at, at+1)
		t.users = 1
		ts.mu.Unlock()
		return t, nil
	}
	ts.mu.Unlock()
	dir := ts.dir
	if dir == "" {
		dir = os.TempDir()
	}
	n, _ := tensor.Count(dims)
	area, err := pages.InFile(dir, n*dtype.Size())
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err), fault.Hint("name a directory with more room (--tables)"))
	}
	over, err := wire.Over(area.Bytes(), dtype, dims...)
	if err != nil {
		area.Close()
		return nil, err
	}
	return &table{of: ts, name: name, area: area, tensor: over, users: 1}, nil
}

// load makes the table have a state.
func (t *table) load(ctx context.Context, state State) error {
	since := t.state
	t.state = nil
	if err := state.Load(ctx, t.name, since, t.tensor); err != nil {
		return err
	}
	t.state = state
	return nil
}

func (t *table) retain() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.users++
}

// release ends what take or retain began. The table of the last one waits for the next state, unless another of its name does.
func (t *table) release() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.users--; t.users > 0 {
		return
	}
	if t.of.closed || slices.ContainsFunc(t.of.free, func(o *table) bool { return o.name == t.name }) {
		t.area.Close()
		return
	}
	t.of.free = append(t.of.free, t)
}

// close gives back the tables that no version has. Others go back when they are released.
func (ts *tables) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, t := range ts.free {
		t.area.Close()
	}
	ts.free = nil
}
