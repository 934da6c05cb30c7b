package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// Servers waits for the addresses of all pservers.
func (r *registry) Servers(ctx context.Context, n int) ([]string, error) {
	if err := checkCount(n); err != nil {
		return nil, err
	}
	addresses := make([]string, n)
	err := r.await(ctx, serversKey, func(v view) string {
		missing := ""
		for i := range addresses {
			addresses[i] = v[r.prefix+memberKey(Member{Role: job.Role_PSERVER, Index: i})].value
			switch {
			case addresses[i] != "":
			case missing == "":
				missing = fmt.Sprintf("pserver %d", i)
			case len(missing) < 100:
				missing += fmt.Sprintf(", %d", i)
			case missing[len(missing)-1] != '.':
				missing += ", ..."
			}
		}
		if missing != "" {
			missing += fmt.Sprintf(" of %d to start", n)
		}
		return missing
	})
	return addresses, err
}

// Server waits for the address of one pserver.
func (r *registry) Server(ctx context.Context, index int) (string, error) {
	m := Member{Role: job.Role_PSERVER, Index: index}
	return r.address(ctx, memberKey(m), m)
}

// Coordinator waits for the address of the coordinator.
func (r *registry) Coordinator(ctx context.Context) (string, error) {
	return r.address(ctx, addressKey, Member{Role: job.Role_COORDINATOR})
}

func (r *registry) address(ctx context.Context, key string, m Member) (string, error) {
	var address string
	err := r.await(ctx, key, func(v view) string {
		address = v[r.prefix+key].value
		if address == "" {
			return m.String() + " to start"
		}
		return ""
	})
	return address, err
}

// await follows the keys of the job below key until missing, which says what is waited for, returns "".
func (r *registry) await(ctx context.Context, key string, missing func(view) string) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	reason := "an answer of the store"
	err := r.store.follow(ctx, r.prefix+key, func(v view) bool {
		reason = missing(v)
		return reason == ""
	})
	if err == nil || ctx.Err() == nil {
		return storeFault(ctx, r.prefix+key, err)
	}
	if errors.Is(err, fault.Unavailable) {
		reason += ": " + err.Error()
	}
	return fault.E(contextKind(ctx), fault.At(r.prefix+key), fault.Got("no end of waiting for "+reason), fault.Cause(context.Cause(ctx)))
}

// look returns the keys below prefix as they are now.
func (r *registry) look(ctx context.Context, prefix string) (view, error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	var now view
	err := r.store.follow(ctx, prefix, func(v view) bool {
		now = maps.Clone(v)
		return true
	})
	return now, storeFault(ctx, prefix, err)
}

// scope ends ctx with the handle.
func (r *registry) scope(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.ctx.Err() != nil {
		cancel(errClosed)
	}
	stop := context.AfterFunc(r.ctx, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// storeFault gives an error of the store a kind and a place.
func storeFault(ctx context.Context, where string, err error) error {
	var f *fault.Fault
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		f := fault.E(contextKind(ctx), fault.At(where), fault.Got("no answer of the store"), fault.Cause(context.Cause(ctx)))
		if fault.KindOf(err) == fault.Unavailable {
			f.Got += ": " + err.Error()
		}
		return f
	case errors.As(err, &f):
		return err
	}
	return fault.E(fault.Unavailable, fault.At(where), fault.Cause(err))
}

func contextKind(ctx context.Context) fault.Kind {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.DeadlineExceeded
	}
	return fault.Canceled
}
