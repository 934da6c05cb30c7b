package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

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

// SetDesired puts the number of pservers without a lease: it must not vanish with the member that wrote it.
func (r *registry) SetDesired(ctx context.Context, servers int) error {
	return r.setCount(ctx, desiredKey, servers)
}

// Desired waits for the number of pservers.
func (r *registry) Desired(ctx context.Context) (int, error) {
	return r.count(ctx, desiredKey, "the number of pservers")
}

// SetTrainers puts the number of trainers, without a lease too.
func (r *registry) SetTrainers(ctx context.Context, trainers int) error {
	return r.setCount(ctx, wantedKey, trainers)
}

// Trainers waits for the number of trainers.
func (r *registry) Trainers(ctx context.Context) (int, error) {
	return r.count(ctx, wantedKey, "the number of trainers")
}

// WatchTrainers follows the number of trainers. A number that does not make sense is left out.
func (r *registry) WatchTrainers(ctx context.Context) (<-chan int, error) {
	return watch(ctx, r, wantedKey, func(v view) (int, bool) {
		e, said := v[r.prefix+wantedKey]
		if !said {
			return 0, false
		}
		n, err := countIn(r.prefix+wantedKey, e.value)
		return n, err == nil
	})
}

func (r *registry) setCount(ctx context.Context, key string, n int) error {
	if err := checkCount(n); err != nil {
		return err
	}
	ctx, cancel := r.scope(ctx)
	defer cancel()
	_, _, err := r.store.commit(ctx, txn{puts: []put{{key: r.prefix + key, value: fmt.Sprint(n)}}})
	return storeFault(ctx, r.prefix+key, err)
}

func (r *registry) count(ctx context.Context, key, what string) (int, error) {
	var text string
	err := r.await(ctx, key, func(v view) string {
		if text = v[r.prefix+key].value; text == "" {
			return what
		}
		return ""
	})
	if err != nil {
		return 0, err
	}
	return countIn(r.prefix+key, text)
}

func countIn(key, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.At(key), fault.Got(fault.Quote(text)), fault.Want("a number"))
	}
	return n, checkCount(n)
}

// checkCount bounds a number of members before anything is made of that size.
func checkCount(n int) error {
	if n < 1 || n > maxMembers {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Gotf("%d members of a role", n), fault.Wantf("1 to %d", maxMembers))
	}
	return nil
}

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
