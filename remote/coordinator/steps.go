package coordinator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// collector joins what the trainers fetched in a round into one step. Server.mu guards it.
//
// In sync mode a trainer reports a round when it knows that the round has committed, so that one which was given up and trained again is reported once. A step is
// complete when the rows of its reports are those of its batch. Reports may be missing for ever: their trainer was lost, or a coordinator that
// is gone had acknowledged them. Trainers report in order; so when a step is complete, nobody completes an earlier one any more.
type collector struct {
	sync, interactive bool
	expected          map[uint64][]uint32 // interactive: the ranks that report a step
	merge             func(reports []*rpc.TrainerStep) ([]*job.Value, error)
	rounds            map[uint64]map[uint32]*rpc.TrainerStep // of steps that are not complete
	last              map[uint32]position                    // async: of the last report of each rank
	next              uint64                                 // sync, interactive: the least step that may be emitted
	steps             uint64                                 // emitted
	pass              int32
}

// position is a step of a trainer in async mode.
type position struct{ generation, round uint64 }

// add takes one report and returns the steps that are complete with it, in order.
func (c *collector) add(m *rpc.TrainerStep) ([]*job.Step, error) {
	if !c.sync && !c.interactive {
		return c.addOne(m)
	}
	round := m.Id.Round
	if round < c.next {
		return nil, nil // repeated, or of a step that was passed over
	}
	if c.rounds[round] == nil {
		c.rounds[round] = map[uint32]*rpc.TrainerStep{}
	}
	c.rounds[round][m.Id.Rank] = m
	var out []*job.Step
	for _, round := range slices.Sorted(maps.Keys(c.rounds)) {
		if c.interactive && round != c.next || !c.complete(round) {
			continue
		}
		step, err := c.join(c.rounds[round], round)
		if err != nil {
			return out, err
		}
		out = append(out, step)
		c.pass, c.next = step.Pass, round+1
		maps.DeleteFunc(c.rounds, func(r uint64, _ map[uint32]*rpc.TrainerStep) bool { return r < c.next })
		delete(c.expected, round)
	}
	return out, nil
}

// addOne takes a report of async mode: each is a step, unless it is repeated or comes from a process that another has followed.
func (c *collector) addOne(m *rpc.TrainerStep) ([]*job.Step, error) {
	last, ok := c.last[m.Id.Rank]
	if ok && (m.Id.Generation < last.generation || m.Id.Generation == last.generation && m.Id.Round <= last.round) {
		return nil, nil
	}
	step, err := c.join(map[uint32]*rpc.TrainerStep{m.Id.Rank: m}, c.steps)
	if err != nil {
		return nil, err
	}
	c.last[m.Id.Rank] = position{m.Id.Generation, m.Id.Round}
	c.pass = step.Pass
	return []*job.Step{step}, nil
}

// complete reports whether everyone who contributed to a step has reported it.
func (c *collector) complete(number uint64) bool {
	reports := c.rounds[number]
	if c.interactive {
		for _, rank := range c.expected[number] {
			if reports[rank] == nil {
				return false
			}
		}
		return c.expected[number] != nil
	}
	rows, global := int64(0), int64(0)
	for _, r := range reports {
		rows += r.Rows
		global = r.GlobalRows
	}
	return rows == global
}

// join makes one step of the reports of all ranks, in rank order.
func (c *collector) join(reports map[uint32]*rpc.TrainerStep, number uint64) (*job.Step, error) {
	step := &job.Step{Step: number}
	var with []*rpc.TrainerStep
	for _, rank := range slices.Sorted(maps.Keys(reports)) {
		r := reports[rank]
		step.Pass, step.Trainers = r.Pass, int32(r.Trainers)
		step.Rows += r.Rows
		if r.Rows > 0 || len(r.Fetched) > 0 {
			with = append(with, r)
		}
	}
	if len(with) > 0 {
		var err error
		if step.Fetched, err = c.merge(with); err != nil {
			return nil, err
		}
	}
	c.steps++
	return step, nil
}

// progress says how far the job is.
func (c *collector) progress() string { return fmt.Sprintf("step %d of pass %d", c.steps, c.pass) }

// checkReport refuses a report that no trainer makes.
func checkReport(m *rpc.TrainerStep) error {
	if m.Rows < 0 || m.GlobalRows < m.Rows {
		return &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("a report of %d of %d rows", m.Rows, m.GlobalRows)}
	}
	return nil
}
