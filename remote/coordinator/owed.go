package coordinator

import (
	"context"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// Backup trainers drop contributions, whose records go to later rounds. Server 0 decides what counts (package pserver), and its ledger has nothing else. So
// the records that are owed are those of the pass that the ledger lacks, and need no list of their own:
//
//	last round of the segment --> a trainer asks for the next pass --> the ledger has all records: it begins
//	                                                                `-> it lacks some: a generation begins, with a segment of these records
//
// The segment is the one that a damaged task leads to (queue.Regrouped): what the ledger has is left out, and the rest is shuffled and divided into batches.
// If a round of it drops something, another one follows. Each round trains at least one record, so a pass ends. A segment begins earlier where so much was
// dropped that what it has to leave out becomes too many ranges.

// maxOwed is how many runs of records may be owed before a segment of them begins.
const maxOwed = 1 << 13

// debts is what was dropped, as the reports tell. They are no proof: the ledger is. The monitor guards it.
type debts struct {
	runs  int64 // of pass, since the last segment that began early, at most
	pass  int32
	drops map[id.Rank]uint64 // how many rounds count without a contribution of each rank
}

// noteDropped notes a step that is complete. generation is the one that it was trained in.
func noteDropped(s *steps, next joined, number id.Generation) {
	dropped := next.step.Dropped
	if len(dropped) == 0 {
		return
	}
	d, g := &s.debts, s.members.machine.Generation()
	if d.drops == nil {
		d.drops = map[id.Rank]uint64{}
	}
	for _, at := range dropped {
		if g.Number == number && int(at) < len(g.Members) {
			d.drops[g.Members[at].Rank]++
		}
	}
	read := s.reading
	if next.step.Pass != d.pass {
		d.pass, d.runs = next.step.Pass, 0
	}
	if d.runs += int64(len(dropped)); read.ShuffleBuffer > 1 {
		d.runs += max(0, read.Rows-next.step.Rows)
	}
	if d.runs >= maxOwed {
		d.runs = 0
		s.spawn(func() { owe(s) })
	}
}

// owe begins a segment of what is left of the pass.
func owe(s *steps) {
	for name := range s.store.current() {
		if err := s.store.step(name, queue.RecordsOwed{}); err != nil {
			if s.ctx.Err() == nil {
				s.Fail(err)
			}
			return
		}
	}
	s.members.event(generation.DataFailed{})
}

// committedBefore asks the ledger, with backup trainers, what is trained of a pass, when a trainer asks for the next one.
func (d *dispatch) committedBefore(ctx context.Context, m *rpc.GetTaskRequest) (ranges.Set, error) {
	if d.cfg.Backup == 0 || m.ReportOnly {
		return nil, nil
	}
	q, ok := d.store.current()[m.Dataset]
	if !ok || m.Pass != q.Pass()+1 || q.Regrouping() {
		return nil, nil
	}
	if err := d.members.check(m.Id); err != nil { // the round that it waits for may never come
		return nil, err
	}
	return d.committed(ctx, q.Pass(), m.Id.Round)
}

// segment is, with backup trainers, what a trainer needs that has not seen a pass begin.
func (d *dispatch) segment(m *rpc.GetTaskRequest, grant queue.Grant) *rpc.Segment {
	if d.cfg.Backup == 0 || grant.Task == nil {
		return nil
	}
	return queue.LastSegment(d.store.current()[m.Dataset], m.Pass)
}
