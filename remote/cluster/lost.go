package cluster

import (
	"context"
	"strings"
	"sync"

	"github.com/edl-go/edl/fault"
)

// Lost compares marks with keys: a member that is marked as joined and has no key has been lost. Marks count losses, so that one is reported although
// the member has joined again before anybody looked.
func (r *registry) Lost(ctx context.Context) (<-chan Member, error) {
	ctx, cancel := r.scope(ctx)
	if ctx.Err() != nil {
		cancel()
		return nil, fault.E(contextKind(ctx), fault.At(r.prefix), fault.Cause(context.Cause(ctx)))
	}
	lost := make(chan Member)
	report := func(m Member) {
		select {
		case lost <- m:
		case <-ctx.Done():
		}
	}
	var following sync.WaitGroup
	for _, key := range roleKeys {
		following.Go(func() {
			// Who hears of some roles only would wait for the others for ever.
			defer cancel()
			_ = r.store.follow(ctx, r.prefix+key, (&losses{prefix: r.prefix, report: report}).see) // a closed channel says that no more is known
		})
	}
	r.running.Go(func() {
		defer cancel()
		defer close(lost)
		following.Wait()
	})
	return lost, nil
}

// losses finds the losses between one view and the next.
type losses struct {
	prefix string
	report func(Member)
	known  map[Member]int // losses that were reported or were past when the first view was seen; nil before
}

func (l *losses) see(v view) bool {
	first := l.known == nil
	if first {
		l.known = map[Member]int{}
	}
	for key, e := range v {
		m, ok := markOf(strings.TrimPrefix(key, l.prefix))
		if !ok {
			continue
		}
		mark := markIn(e.value)
		total := mark.losses
		if _, lives := v[l.prefix+memberKey(m)]; !lives {
			total = mark.after()
		}
		if first || total < l.known[m] { // less than before: the history was forgotten, and another begun
			l.known[m] = mark.losses
		}
		for ; l.known[m] < total; l.known[m]++ {
			l.report(m)
		}
	}
	return false
}
