package listen

import (
	"context"
	"sync"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// lasts asks for the queues and the ledger that there are in the end, which the coordinator and pserver 0
// tell before they end. Each process of theirs is asked, because what an earlier one said is not the end:
// it was lost or given up, or its history has ended. The methods belong to the goroutine of the crew.
type lasts struct {
	ctx   context.Context // until it ends they are asked
	job   *Job
	peers *peers
	group *sync.WaitGroup // of what asks
	asked map[cluster.Member]question
}

// A question is what was asked of one process.
type question struct {
	cancel   context.CancelFunc // called with job.mu held: no answer is entered after it
	answered <-chan struct{}
}

func newLasts(ctx context.Context, j *Job, p *peers, group *sync.WaitGroup) *lasts {
	return &lasts{ctx: ctx, job: j, peers: p, group: group, asked: map[cluster.Member]question{}}
}

// starts asks a process that is being started, if it is one that is asked, and leaves out the answer of the one before.
func (l *lasts) starts(m cluster.Member) {
	switch m {
	case cluster.Member{Role: job.Role_COORDINATOR}:
		l.ask(m, "the last queues", func(ctx context.Context) (func(), error) {
			q, err := wire.Queues(ctx, l.peers.coordinator, queuesRequest(l.job.ID, true))
			return func() { l.job.known.queues = q }, err
		})
	case cluster.Member{Role: job.Role_PSERVER}:
		l.ask(m, "the last ledger", func(ctx context.Context) (func(), error) {
			ledger, err := wire.Ledger(ctx, m.String(), l.peers.servers[0], &rpc.LedgerRequest{Job: l.job.ID, Final: true})
			return func() { l.job.known.ledger = ledger }, err
		})
	}
}

func (l *lasts) ask(m cluster.Member, what string, ask func(context.Context) (enter func(), err error)) {
	ctx, cancel := context.WithCancel(l.ctx)
	answered := make(chan struct{})
	l.job.enter(func() {
		if before, ok := l.asked[m]; ok {
			before.cancel()
		}
		l.asked[m] = question{cancel: cancel, answered: answered}
	})
	l.group.Go(func() {
		defer close(answered)
		defer cancel()
		l.job.again(ctx, what, func() error {
			enter, err := ask(ctx)
			if err != nil {
				return err
			}
			l.job.enter(func() {
				if ctx.Err() == nil {
					enter()
				}
			})
			return nil
		})
	})
}

// forget leaves out what is still to come of a history that has ended. job.mu is held.
func (l *lasts) forget() {
	for _, q := range l.asked {
		q.cancel()
	}
	clear(l.asked)
}

// wait waits until the last process of each has answered, or until done is closed.
func (l *lasts) wait(done <-chan struct{}) {
	for _, q := range l.asked {
		select {
		case <-q.answered:
		case <-done:
		}
	}
}
