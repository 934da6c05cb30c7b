package pserver

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// tables tell how much a server has of each table that is on servers alone. Rounds do not count anything: rows are counted when a status is asked for, or, if a
// round is being applied then, at its end. So a status waits for no round, which may wait for other servers.
type tables struct {
	asked atomic.Bool // somebody has asked while a round was applied
	mu    sync.Mutex
	last  []*rpc.TableUse
}

// status returns the last counts, which are those of now unless a round is being applied.
func (t *tables) status(s *Server) []*rpc.TableUse {
	if s.values == nil || !t.some() {
		return nil
	}
	switch {
	case s.core.updates != nil: // an update waits for nobody
		s.values.Lock()
		t.count(s)
		s.values.Unlock()
	case s.values.TryLock():
		t.count(s)
		s.values.Unlock()
	default:
		t.asked.Store(true)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// some reports whether the server has tables.
func (t *tables) some() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.last) > 0
}

// applied counts if somebody has asked. A round has been applied, and the next one is not begun.
func (t *tables) applied(s *Server) {
	if t.asked.Load() && t.asked.CompareAndSwap(true, false) {
		s.values.RLock()
		defer s.values.RUnlock()
		t.count(s)
	}
}

// count counts what there is. Nobody changes the variables meanwhile.
func (t *tables) count(s *Server) {
	uses := tableUses(s.core.cfg.Index, s.cuts.service, s.values)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = uses
}

// partRows are rows of one slice of a table.
type partRows struct {
	total      int64 // of the whole table
	used       int64
	candidates int64
}

// tableUses counts the rows of tables on a server, and the bytes of what goes with them.
func tableUses(server int, service *comm.Service, v *values) []*rpc.TableUse {
	type place struct {
		table string
		first int64
	}
	parts, byName, uses := map[place]partRows{}, map[string]*rpc.TableUse{}, []*rpc.TableUse{}
	for _, slice := range service.Slices {
		if slice.Table == "" || slice.Origin != slice.Table {
			continue
		}
		u := byName[slice.Table]
		if u == nil {
			u = &rpc.TableUse{Name: slice.Table, Server: uint32(server)}
			byName[slice.Table], uses = u, append(uses, u)
		}
		p := partRows{total: slice.TotalRows, used: slice.Rows}
		if at := slices.IndexFunc(service.Tables, func(t comm.GrownTable) bool { return t.Name == slice.Name }); at >= 0 {
			u.Grows = true
			p.used, p.candidates = usedOf(&service.Tables[at], v)
		}
		parts[place{slice.Table, slice.FirstRow}] = p
		u.Rows, u.Room, u.Candidates = u.Rows+p.used, u.Room+slice.Rows, u.Candidates+p.candidates
	}
	for _, slice := range service.Slices {
		u, p := byName[slice.Table], parts[place{slice.Table, slice.FirstRow}]
		t, ok := v.Variable(slice.Name)
		if u == nil || !ok {
			continue
		}
		bytes, each := t.Bytes(), int64(0)
		if p.total == slice.TotalRows && slice.Rows > 0 {
			each = bytes / slice.Rows
			bytes = each * p.used
		}
		switch keeps := func(is func(comm.GrownTable) bool) bool { return slices.ContainsFunc(service.Tables, is) }; {
		case slice.Origin == slice.Table:
			u.Values += bytes
		case keeps(func(t comm.GrownTable) bool { return t.Keys == slice.Name }):
			u.Structure += bytes + each*p.candidates
		case keeps(func(t comm.GrownTable) bool { return t.Counts == slice.Name }):
			u.Structure += each * p.candidates
		case keeps(func(t comm.GrownTable) bool { return t.Index == slice.Name }):
			u.Structure += t.Bytes()
		case t.DType() == tensor.Int64: // the number of the round
			u.Structure += bytes
		default:
			u.Slots += bytes
		}
	}
	return uses
}

// usedOf returns how many rows of a table that grows are in use, and how many keys are counted.
func usedOf(t *comm.GrownTable, v *values) (rows, candidates int64) {
	keys, _ := v.Variable(t.Keys)
	index, _ := v.Variable(t.Index)
	view, ok := t.View(keys, index)
	if !ok {
		return 0, 0
	}
	if counts, ok := v.Variable(t.Counts); ok && counts.DType() == tensor.Int32 && counts.Len() == len(view.Keys) {
		view.Counts = counts.Int32s()
	}
	used, counted := view.Used()
	return int64(used), int64(counted)
}
