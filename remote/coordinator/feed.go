package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// split cuts a fed batch into one share per trainer: rows [rows*t/N, rows*(t+1)/N) of every variable whose first dim the program leaves open,
// and all of the others. It returns the number of rows.
func split(p *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	for t := range shares {
		shares[t] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	}
	rows := int64(-1)
	for _, value := range run.Feed {
		v, ok := p.Global().Var(value.Name)
		if !ok {
			return nil, &fault.Fault{Kind: fault.NotFound, Variable: value.Name, Got: "a feed that the program does not declare"}
		}
		if len(v.Dims) == 0 || v.Dims[0] != program.Unknown {
			for _, s := range shares {
				s.Feed = append(s.Feed, value)
			}
			continue
		}
		whole, err := decode(value)
		if err != nil {
			return nil, err
		}
		if len(whole.Dims()) == 0 || rows >= 0 && whole.Dims()[0] != rows {
			return nil, &fault.Fault{Kind: fault.ShapeMismatch, Variable: value.Name, Got: whole.String(), Want: fmt.Sprintf("%d rows, as the other feeds have", rows)}
		}
		rows = whole.Dims()[0]
		for t, s := range shares {
			from, to := rows*int64(t)/int64(trainers), rows*int64(t+1)/int64(trainers)
			part, err := whole.Rows(from, to)
			if err != nil {
				return nil, err
			}
			s.Feed = append(s.Feed, &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, part)})
			s.RowOffset, s.Rows, s.GlobalRows = from, to-from, rows
		}
	}
	if rows < 0 {
		for t, s := range shares { // nothing is batched: every trainer would do the same, so one does it
			if s.GlobalRows = 1; t == 0 {
				s.Rows = 1
			}
		}
	}
	return shares, nil
}

func decode(v *job.Value) (*tensor.Tensor, error) {
	t, rest, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
	if err == nil && len(rest) > 0 {
		err = &fault.Fault{Kind: fault.Corrupt, Got: fmt.Sprintf("%d bytes behind the tensor", len(rest))}
	}
	if err != nil {
		return nil, &fault.Fault{Kind: fault.KindOf(err), Variable: v.Name, Err: err}
	}
	return t, nil
}

// whole gives a fed batch to one trainer, as async mode does, in turn.
func whole(p *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	one, err := split(p, run, 1)
	if err != nil {
		return nil, err
	}
	shares := make([]*rpc.FeedShare, trainers)
	shares[run.Step%uint64(trainers)] = one[0]
	return shares, nil
}

// feeds holds what is to be fed to each trainer. Server.mu guards it.
type feeds struct {
	shares [][]*rpc.FeedShare // by rank, all that were ever given; nil once acknowledged by a request for the next
	closed bool
}

// next returns share number n of a rank, nil when it is not there yet.
func (f *feeds) next(rank int, n uint64) (*rpc.FeedShare, error) {
	given := f.shares[rank]
	if n > uint64(len(given)) {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("a request for feed %d of trainer %d", n, rank), Want: fmt.Sprintf("at most %d", len(given))}
	}
	if n > 0 {
		given[n-1] = nil // a request for the next one says that this one has been trained
	}
	switch {
	case n < uint64(len(given)):
		return given[n], nil
	case f.closed:
		return &rpc.FeedShare{End: true}, nil
	}
	return nil, nil
}

// Feed runs one fed step and returns what it fetched.
func (s *Server) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	cut := split
	switch {
	case len(run.Feed) == 0:
		cut = readOnly
	case !s.cfg.Sync:
		cut = whole
	}
	shares, err := cut(s.cfg.Program, run, s.cfg.Trainers)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch {
	case s.feeds.closed:
		s.mu.Unlock()
		return nil, fault.New(fault.InvalidArgument, "the session has been closed")
	case run.Step > s.fed:
		s.mu.Unlock()
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("step %d", run.Step), Want: fmt.Sprintf("step %d", s.fed)}
	case run.Step == s.fed:
		var ranks []int
		for rank, share := range shares {
			if share != nil {
				s.feeds.shares[rank] = append(s.feeds.shares[rank], share)
				ranks = append(ranks, rank)
			}
		}
		s.steps.expected[run.Step] = ranks
		s.fed++
		s.broadcast()
	}
	s.mu.Unlock()
	var done *job.Step
	err = s.await(ctx, fmt.Sprintf("step %d", run.Step), func() bool {
		done = s.results[run.Step]
		return done != nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for step := range s.results {
		if step < run.Step {
			delete(s.results, step)
		}
	}
	return done, nil
}

// readOnly asks the first trainer for values of variables without training.
func readOnly(_ *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	shares[0] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	return shares, nil
}
