package listen

import (
	"context"
	"sync"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// What a process tells of the end is void when another has been asked in its place, or its history has ended, while the answer was on its way.
func TestLateWordOfTheEnd(t *testing.T) {
	for name, followed := range map[string]func(l *lasts, m cluster.Member){
		"by another process": func(l *lasts, m cluster.Member) {
			l.ask(m, "the next", func(ctx context.Context) (func(), error) { <-ctx.Done(); return nil, ctx.Err() })
		},
		"by another history": func(l *lasts, _ cluster.Member) { l.job.enter(l.forget) },
	} {
		w, _ := heard(t, job.Mode_SYNC)
		var group sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		l, coordinator := newLasts(ctx, w.job, nil, &group), cluster.Member{Role: job.Role_COORDINATOR}
		told, answer := make(chan struct{}), make(chan struct{})
		l.ask(coordinator, "the first", func(context.Context) (func(), error) {
			close(told)
			<-answer
			return func() { w.job.known.queues = &rpc.QueuesResponse{Generation: 7} }, nil
		})
		<-told
		first := l.asked[coordinator].answered
		followed(l, coordinator)
		close(answer)
		<-first
		w.job.enter(func() {
			if q := w.job.known.queues; q != nil {
				t.Errorf("followed %s, the end is as the first one told it: %v", name, q)
			}
		})
		cancel()
		group.Wait()
	}
}
