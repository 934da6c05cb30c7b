package coordinator

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// collector joins what the trainers fetched in a round into one step.
type collector struct {
	trainers int
	shared   bool             // several trainers may report one step: in sync mode all do, in an interactive job those that were given a share
	expected map[uint64][]int // interactive: the ranks that report a step
	merge    func(reports []*rpc.TrainerStep) ([]*job.Value, error)
	rounds   map[uint64][]*rpc.TrainerStep
	last     map[uint32]uint64 // async: round of the last report of each rank
	next     uint64            // shared: the next step to emit
	steps    uint64            // emitted
	records  int64
	pass     int32
}

// add takes one report and returns the steps that are complete with it, in order.
func (c *collector) add(m *rpc.TrainerStep) ([]*job.Step, error) {
	if !c.shared {
		if last, ok := c.last[m.Id.Rank]; ok && m.Id.Round <= last {
			return nil, nil // a repeated report
		}
		c.last[m.Id.Rank] = m.Id.Round
		step, err := c.join([]*rpc.TrainerStep{m}, c.steps)
		if err != nil {
			return nil, err
		}
		return []*job.Step{step}, nil
	}
	round := m.Id.Round
	if round < c.next {
		return nil, nil // a repeated report
	}
	reports := c.rounds[round]
	if reports == nil {
		reports = make([]*rpc.TrainerStep, c.trainers)
		c.rounds[round] = reports
	}
	if int(m.Id.Rank) >= c.trainers {
		return nil, &fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("trainer %d", m.Id.Rank)}
	}
	reports[m.Id.Rank] = m
	var out []*job.Step
	for c.complete(c.next) {
		step, err := c.join(c.rounds[c.next], c.next)
		if err != nil {
			return out, err
		}
		delete(c.rounds, c.next)
		delete(c.expected, c.next)
		c.next++
		out = append(out, step)
	}
	return out, nil
}

// complete reports whether everyone who reports a step has done so.
func (c *collector) complete(number uint64) bool {
	reports := c.rounds[number]
	if reports == nil {
		return false
	}
	if ranks, ok := c.expected[number]; ok {
		for _, rank := range ranks {
			if reports[rank] == nil {
				return false
			}
		}
		return true
	}
	return !slices.Contains(reports, nil)
}

// join makes one step of the reports of all ranks, in rank order.
func (c *collector) join(reports []*rpc.TrainerStep, number uint64) (*job.Step, error) {
	step := &job.Step{Step: number}
	var with []*rpc.TrainerStep
	for _, r := range reports {
		if r == nil {
			continue
		}
		step.Pass = r.Pass
		step.Rows += r.Rows
		if r.Rows > 0 || len(r.Fetched) > 0 {
			with = append(with, r)
		}
	}
	var err error
	if len(with) > 0 {
		step.Fetched, err = c.merge(with)
	}
	c.steps++
	c.records += step.Rows
	c.pass = step.Pass
	return step, err
}
