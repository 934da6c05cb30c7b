package coordinator

import (
	"maps"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// collector joins what the trainers report of a step. It is pure; the values are merged by the step writer.
//
// In sync mode, and in fed jobs, the number of a step is known before it is trained, and steps are written in that order. A trainer of a sync job reports
// a round when it knows that the round has committed, or when its generation has ended and the round may have (Pending); a round that was given up and
// trained again counts once. A step is complete when the rows of its reports are those of its batch. What is left of a step is written as it is when the
// generation has ended in which it was trained.
//
// In async mode each report is a step, numbered in the order in which they come.
type collector struct {
	ordered bool                     // sync mode or fed job
	sync    bool                     // sync mode
	rounds  map[id.Round]*reportsOf  // ordered: of steps that were not written
	last    map[id.Rank]reportNumber // otherwise: of the last report of each rank
	next    id.Round                 // ordered: the least step that may be written
	steps   id.Step                  // written, also by earlier coordinators
	pass    int32
}

// reportsOf are the reports of a round. It counts, so that a report costs the same for any number of trainers.
type reportsOf struct {
	byRank  map[id.Rank]*rpc.TrainerStep
	rows    int64 // of all
	global  int64 // rows of the batch
	pending int   // how many are
}

// add takes a report in place of the last one of the same rank.
func (r *reportsOf) add(rank id.Rank, m *rpc.TrainerStep) {
	if old := r.byRank[rank]; old != nil {
		r.rows -= old.Rows
		if old.Pending {
			r.pending--
		}
	}
	r.byRank[rank] = m
	r.rows, r.global = r.rows+m.Rows, m.GlobalRows
	if m.Pending {
		r.pending++
	}
}

// reportNumber is the place of a report in async mode: which process of a rank has sent it, and which of its steps it is.
type reportNumber struct {
	generation id.Generation
	round      id.Round
}

// joined is a step to be written, and the reports that its values are merged of.
type joined struct {
	step *job.Step
	from []*rpc.TrainerStep // empty: nobody who lives has reported it
}

func newCollector(cfg Config) collector {
	begin := cfg.Begin.GetSteps()
	return collector{ordered: cfg.Sync || cfg.Fed, sync: cfg.Sync, next: id.Round(begin), steps: id.Step(begin), rounds: map[id.Round]*reportsOf{},
		last: map[id.Rank]reportNumber{}}
}

// add takes one report and returns the steps that are complete with it, in order.
func (c *collector) add(m *rpc.TrainerStep) (out []joined) {
	if !c.ordered {
		return c.addOne(m)
	}
	from := wire.SenderOf(m.Id)
	round := from.Round
	if round < c.next {
		return nil // repeated, or too late
	}
	if c.rounds[round] == nil {
		c.rounds[round] = &reportsOf{byRank: map[id.Rank]*rpc.TrainerStep{}}
	}
	c.rounds[round].add(from.Rank, m)
	for c.complete(c.next) {
		out = append(out, c.take(c.next))
	}
	return out
}

// addOne takes a report of async mode: each is a step, unless it is repeated or comes from a process that another has followed.
func (c *collector) addOne(m *rpc.TrainerStep) []joined {
	from := wire.SenderOf(m.Id)
	rank, now := from.Rank, reportNumber{from.Generation, from.Round}
	last, ok := c.last[rank]
	if ok && (now.generation < last.generation || now.generation == last.generation && now.round <= last.round) {
		return nil
	}
	out := c.join(map[id.Rank]*rpc.TrainerStep{rank: m}, uint64(c.steps))
	c.last[rank] = now
	c.steps++
	c.pass = out.step.Pass
	return []joined{out}
}

// close returns the steps before round that are not written. The caller knows that they have committed and that no more reports of them come. The last of
// them is returned even if nobody has reported it, with the pass that is given: its number tells how many steps were trained.
func (c *collector) close(round id.Round, pass int32) (out []joined) {
	out = c.takeBefore(round)
	if c.next < round {
		c.next, c.steps, c.pass = round, id.Step(round), pass
		out = append(out, joined{step: &job.Step{Step: uint64(round) - 1, Pass: pass}})
	}
	return out
}

// reopen is close for a fed job, whose trainers report the last step before round again, to a new coordinator. It leaves that step open.
func (c *collector) reopen(round id.Round) (out []joined) {
	if round == 0 || c.next >= round {
		return nil
	}
	return append(c.takeBefore(round-1), c.goOn(round-1)...)
}

// goOn makes a step the next one that may be written: an earlier coordinator has written those before. What was reported meanwhile may complete it.
func (c *collector) goOn(next id.Round) (out []joined) {
	c.next, c.steps = next, id.Step(next)
	for c.complete(c.next) {
		out = append(out, c.take(c.next))
	}
	return out
}

// void drops the reports of rounds from one on: their generation has ended, and they have not committed.
func (c *collector) void(round id.Round) {
	maps.DeleteFunc(c.rounds, func(r id.Round, _ *reportsOf) bool { return r >= round })
}

// takeBefore makes steps of what was reported of those before round.
func (c *collector) takeBefore(round id.Round) (out []joined) {
	for _, r := range slices.Sorted(maps.Keys(c.rounds)) {
		if r < round {
			out = append(out, c.take(r))
		}
	}
	return out
}

// take makes a step of its reports.
func (c *collector) take(number id.Round) joined {
	out := c.join(c.rounds[number].byRank, uint64(number))
	c.pass, c.next, c.steps = out.step.Pass, number+1, id.Step(number)+1
	delete(c.rounds, number)
	return out
}

// lacks finds values that trainers did not receive because their generation ended. If all reports of a round are pending, it returns one of them, and those
// of the names that no report has.
func (c *collector) lacks(round id.Round, names []string) (of *rpc.TrainerStep, lacking []string) {
	lacking = slices.Clone(names)
	reports := c.rounds[round]
	if reports == nil || reports.pending < len(reports.byRank) {
		return nil, nil
	}
	for _, rank := range slices.Sorted(maps.Keys(reports.byRank)) {
		r := reports.byRank[rank]
		if r.Rows > 0 && of == nil {
			of = r
		}
		lacking = without(lacking, r.Fetched)
	}
	if of == nil {
		return nil, nil
	}
	return of, lacking
}

// without returns the names that none of the values has.
func without(names []string, values []*job.Value) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(values, func(v *job.Value) bool { return v.Name == name })
	})
}

// complete reports whether everyone who contributed to a step has reported it, and it has committed.
func (c *collector) complete(number id.Round) bool {
	r := c.rounds[number]
	return r != nil && r.pending == 0 && r.rows == r.global
}

// join makes one step of the reports of all ranks, in rank order.
func (c *collector) join(reports map[id.Rank]*rpc.TrainerStep, number uint64) joined {
	step := &job.Step{Step: number}
	var with []*rpc.TrainerStep
	global := int64(0)
	for _, rank := range slices.Sorted(maps.Keys(reports)) {
		r := reports[rank]
		step.Pass, step.Trainers = r.Pass, int32(r.Trainers)
		step.Rows += r.Rows
		global = r.GlobalRows
		if step.Dropped == nil {
			for _, at := range r.Dropped {
				step.Dropped = append(step.Dropped, int32(at))
			}
		}
		if r.Rows > 0 || len(r.Fetched) > 0 {
			with = append(with, r)
		}
	}
	if c.sync {
		step.Rows, step.Unreported = global, global-step.Rows
	}
	return joined{step, with}
}

// checkReport refuses a report that no trainer makes. A round of this job may count without so many contributions.
func checkReport(m *rpc.TrainerStep, backup int) error {
	if m.Rows < 0 || m.GlobalRows < m.Rows {
		return fault.E(fault.InvalidArgument, fault.Gotf("a report of %d of %d rows", m.Rows, m.GlobalRows))
	}
	if n := len(m.Dropped); n > backup || n > 0 && slices.Max(m.Dropped) > math.MaxInt32 {
		return fault.E(fault.InvalidArgument, fault.Gotf("a report of a round that counts without %d contributions", n),
			fault.Wantf("at most %d, of trainers of the job", backup))
	}
	return nil
}
