package cluster

import (
	"context"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Lost compares marks with keys: a member that is marked as joined and has no key has been lost.
func (r *registry) Lost(ctx context.Context) (<-chan Member, error) {
	ctx, cancel := r.scope(ctx)
	if ctx.Err() != nil {
		cancel()
		return nil, &fault.Fault{Kind: contextKind(ctx), Where: r.prefix, Err: context.Cause(ctx)}
	}
	lost := make(chan Member)
	reported := map[Member]int64{} // revision of the mark under which it was
	see := func(v view) bool {
		for key, mark := range v {
			name, isMark := strings.CutPrefix(key, r.prefix+marksKey)
			m, isMember := memberOf(name)
			_, lives := v[r.prefix+name]
			if !isMark || !isMember || lives || mark.value != markedJoined || reported[m] == mark.modified {
				continue
			}
			select {
			case lost <- m:
				reported[m] = mark.modified
			case <-ctx.Done():
				return false
			}
		}
		return false
	}
	r.running.Go(func() {
		defer cancel()
		defer close(lost)
		_ = r.store.follow(ctx, r.prefix+"/", see) // a closed channel says that no more is known
	})
	return lost, nil
}
