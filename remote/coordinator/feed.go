package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// split cuts a fed batch into one share per trainer: rows [rows*t/N, rows*(t+1)/N) of every variable whose first dim the program leaves open,
// and all of the others.
func split(p *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	for t := range shares {
		shares[t] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	}
	feed := map[string]*tensor.Tensor{}
	for _, value := range run.Feed {
		if feed[value.Name] != nil {
			return nil, &fault.Fault{Kind: fault.InvalidArgument, Variable: value.Name, Got: "two feeds of one variable", Want: "one"}
		}
		var err error
		if feed[value.Name], err = decode(value); err != nil {
			return nil, err
		}
	}
	if err := checkStep(p, run, feed); err != nil {
		return nil, err
	}
	rows := int64(-1)
	for _, value := range run.Feed {
		v, _ := p.Global().Var(value.Name)
		if len(v.Dims) == 0 || v.Dims[0] != program.Unknown {
			for _, s := range shares {
				s.Feed = append(s.Feed, value)
			}
			continue
		}
		whole := feed[value.Name]
		if rows >= 0 && whole.Dims()[0] != rows {
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
	shares [][]*rpc.FeedShare // by rank: those that the rank has not said to have trained
	first  []uint64           // by rank: number of the first of shares
	closed bool
}

func newFeeds(trainers int) feeds {
	return feeds{shares: make([][]*rpc.FeedShare, trainers), first: make([]uint64, trainers)}
}

// next returns share number n of a rank, nil when it is not there yet. A request for it says that those before have been trained.
func (f *feeds) next(rank int, n uint64) (*rpc.FeedShare, error) {
	if rank >= len(f.shares) {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("a request for a feed of trainer %d", rank), Want: fmt.Sprintf("trainers 0 to %d", len(f.shares)-1)}
	}
	first, end := f.first[rank], f.first[rank]+uint64(len(f.shares[rank]))
	switch {
	case n < first:
		return nil, &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("a request for feed %d of trainer %d", n, rank), Want: fmt.Sprintf("feed %d or later", first)}
	case n > end:
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Got: fmt.Sprintf("a request for feed %d of trainer %d", n, rank), Want: fmt.Sprintf("at most %d", end)}
	}
	f.shares[rank], f.first[rank] = slices.Delete(f.shares[rank], 0, int(n-first)), n
	switch {
	case n < end:
		return f.shares[rank][0], nil
	case f.closed:
		return &rpc.FeedShare{End: true}, nil
	}
	return nil, nil
}

// feed runs one fed step and returns what it fetched. A step that is repeated is not run again: its caller is given what it fetched, as long as no
// later step has been answered.
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
		ranks := []uint32{}
		for rank, share := range shares {
			if share != nil {
				s.feeds.shares[rank] = append(s.feeds.shares[rank], share)
				ranks = append(ranks, uint32(rank))
			}
		}
		s.steps.expected[run.Step] = ranks
		s.fed++
		s.broadcast()
	case run.Step < s.answered:
		s.mu.Unlock()
		return nil, &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("step %d again", run.Step), Want: fmt.Sprintf("step %d", s.fed)}
	}
	s.mu.Unlock()
	var done *job.Step
	err = s.await(ctx, waiting{who: "the user", what: fmt.Sprintf("step %d", run.Step)}, func() (bool, error) {
		done = s.results[run.Step]
		return done != nil, nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.answered < run.Step {
		delete(s.results, s.answered)
		s.answered++
	}
	return done, nil
}

// readOnly asks the first trainer for values of variables without training.
func readOnly(_ *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	shares[0] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	return shares, nil
}
