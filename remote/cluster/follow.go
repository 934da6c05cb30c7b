package cluster

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// Follow follows the address of a member that has one.
func (r *registry) Follow(ctx context.Context, m Member) (<-chan string, error) {
	key := memberKey(m)
	switch m.Role {
	case job.Role_COORDINATOR:
		key = addressKey
	case job.Role_PSERVER:
	default:
		return nil, fault.E(fault.InvalidArgument, fault.At(r.prefix), fault.Got(m.String()),
			fault.Want("a coordinator or a pserver, which have addresses"))
	}
	return watch(ctx, r, key, func(v view) (string, bool) { return v[r.prefix+key].value, true })
}

// watch sends what value makes of the keys of the job below key, when it has changed. What was not received in time gives way to what comes after.
func watch[T comparable](ctx context.Context, r *registry, key string, value func(view) (T, bool)) (<-chan T, error) {
	ctx, cancel := r.scope(ctx)
	if ctx.Err() != nil {
		cancel()
		return nil, fault.E(contextKind(ctx), fault.At(r.prefix+key), fault.Cause(context.Cause(ctx)))
	}
	values := make(chan T, 1)
	var last T
	told := false
	r.running.Go(func() {
		defer cancel()
		defer close(values)
		_ = r.store.follow(ctx, r.prefix+key, func(v view) bool { // a closed channel says that no more is known
			now, ok := value(v)
			if !ok || told && now == last {
				return false
			}
			last, told = now, true
			select {
			case <-values:
			default:
			}
			values <- now // nobody else sends: there is room
			return false
		})
	})
	return values, nil
}
