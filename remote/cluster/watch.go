package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/waits"
)

// reader is the half of a registry that reads and waits, and changes nothing.
type reader struct {
	store   store
	prefix  string
	ctx     context.Context // of the handle
	running sync.WaitGroup  // goroutines of watches
}

// Desired waits for the number of pservers.
func (r *reader) Desired(ctx context.Context) (int, error) {
	return r.count(ctx, desiredKey, "the number of pservers")
}

// Trainers waits for the number of trainers.
func (r *reader) Trainers(ctx context.Context) (int, error) {
	return r.count(ctx, wantedKey, "the number of trainers")
}

func (r *reader) count(ctx context.Context, key, what string) (int, error) {
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
	return parseCount(r.prefix+key, text)
}

func parseCount(key, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.At(key), fault.Got(fault.Quote(text)), fault.Want("a number"))
	}
	return n, checkCount(n)
}

// Servers waits for the addresses of all pservers.
func (r *reader) Servers(ctx context.Context, n int) ([]string, error) {
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
func (r *reader) Server(ctx context.Context, index int) (string, error) {
	m := Member{Role: job.Role_PSERVER, Index: index}
	return r.address(ctx, memberKey(m), m)
}

// Coordinator waits for the address of the coordinator.
func (r *reader) Coordinator(ctx context.Context) (string, error) {
	return r.address(ctx, addressKey, Member{Role: job.Role_COORDINATOR})
}

func (r *reader) address(ctx context.Context, key string, m Member) (string, error) {
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
func (r *reader) await(ctx context.Context, key string, missing func(view) string) error {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	reason := "an answer of the store"
	err := r.store.follow(ctx, r.prefix+key, func(v view) bool {
		reason = missing(v)
		return reason == ""
	})
	if err == nil || ctx.Err() == nil {
		return r.storeFault(ctx, r.prefix+key, err)
	}
	if _, silent := r.store.contact().silent(); silent != nil {
		reason += ": " + silent.Error()
	} else if errors.Is(err, fault.Unavailable) {
		reason += ": " + err.Error()
	}
	return waits.GaveUp(ctx, r.prefix+key, waits.Wait{What: reason})
}

// look returns the keys below prefix as they are now.
func (r *reader) look(ctx context.Context, prefix string) (view, error) {
	ctx, cancel := r.scope(ctx)
	defer cancel()
	var now view
	err := r.store.follow(ctx, prefix, func(v view) bool {
		now = maps.Clone(v)
		return true
	})
	return now, r.storeFault(ctx, prefix, err)
}

// WatchTrainers follows the number of trainers. It leaves out what is not a number of members.
func (r *reader) WatchTrainers(ctx context.Context) (<-chan int, error) {
	return watch(ctx, r, wantedKey, func(v view) (int, bool) {
		e, exists := v[r.prefix+wantedKey]
		if !exists {
			return 0, false
		}
		n, err := parseCount(r.prefix+wantedKey, e.value)
		return n, err == nil
	})
}

// WatchAddress follows the address of a member that has one.
func (r *reader) WatchAddress(ctx context.Context, m Member) (<-chan string, error) {
	key := memberKey(m)
	switch m.Role {
	case job.Role_COORDINATOR:
		key = addressKey
	case job.Role_PSERVER, job.Role_STANDBY:
	default:
		return nil, fault.E(fault.InvalidArgument, fault.At(r.prefix), fault.Got(m.String()),
			fault.Want("a coordinator, a pserver or a standby, which have addresses"))
	}
	return watch(ctx, r, key, func(v view) (string, bool) { return v[r.prefix+key].value, true })
}

// watch sends what value makes of the keys of the job below key, whenever that has changed. A value that was not received in time is replaced by the
// next one.
func watch[T comparable](ctx context.Context, r *reader, key string, value func(view) (T, bool)) (<-chan T, error) {
	ctx, cancel := r.scope(ctx)
	if ctx.Err() != nil {
		cancel()
		return nil, fault.E(contextKind(ctx), fault.At(r.prefix+key), fault.Cause(context.Cause(ctx)))
	}
	values := make(chan T, 1)
	var last T
	sent := false
	r.running.Go(func() {
		defer cancel()
		defer close(values)
		_ = r.store.follow(ctx, r.prefix+key, func(v view) bool { // the closed channel reports the error
			now, ok := value(v)
			if !ok || sent && now == last {
				return false
			}
			last, sent = now, true
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

// WatchLost compares loss records with keys. A member that is recorded as joined and has no key may take it anew for as long as the store was silent, or as
// the member answers; then it is declared lost. Records count losses, so a loss is reported even if the member has joined again before this process looked.
func (r *registry) WatchLost(ctx context.Context) (<-chan Member, error) {
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
			// If the store refuses one role, the watch ends for all: the receiver would else wait for losses that nobody reports.
			var declaring sync.WaitGroup
			defer declaring.Wait()
			defer cancel()
			watch := &lossWatch{prefix: r.prefix, report: report, suspected: map[Member]int64{}, addresses: map[Member]string{}}
			watch.suspect = func(m Member, record int64, address string) {
				declaring.Go(func() { declare(ctx, r, m, record, answering(r, address)) })
			}
			_ = r.store.follow(ctx, r.prefix+key, watch.see) // the closed channel reports the error
		})
	}
	r.running.Go(func() {
		defer cancel()
		defer close(lost)
		following.Wait()
	})
	return lost, nil
}

// answering is how declare asks the process at an address whether it lives; nil: it cannot be asked.
func answering(r *registry, address string) func(context.Context) bool {
	if r.answers == nil || address == "" {
		return nil
	}
	until := time.Now().Add(heedLeases * r.lease)
	return func(ctx context.Context) bool {
		if time.Now().After(until) {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, r.lease/2)
		defer cancel()
		return r.answers(ctx, address)
	}
}

// heedLeases bounds how long a member keeps its place that answers and does not take its key anew, in leases: etcd may be cut off from it alone.
const heedLeases = 4

// declare declares a member lost that has no key, with the loss record of that revision, once the time to take its key anew is over, and lives does not
// say that its process answers; nil: that cannot be known. It does nothing if the member has its key again by then, or its record has changed. It tries until
// ctx ends.
func declare(ctx context.Context, r *registry, m Member, record int64, lives func(context.Context) bool) {
	key, recordKey := r.prefix+memberKey(m), r.prefix+lossKey(m)
	for pause := r.store.contact().grace(); ; pause = max(renewPause, r.store.contact().grace()) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if r.store.contact().grace() > 0 {
			continue
		}
		v, err := r.store.get(ctx, key, recordKey)
		if err == nil && (v[key].created != 0 || v[recordKey].modified != record) {
			return
		}
		if err == nil && lives != nil && lives(ctx) {
			continue
		}
		if err == nil {
			_, err = declareLost(ctx, r, m, entry{}, v[recordKey]) // where it changes nothing, a later view shows why
		}
		if err == nil || !retryable(err) {
			return
		}
	}
}

// lossWatch finds the losses between one view and the next.
type lossWatch struct {
	prefix    string
	report    func(Member)
	suspect   func(m Member, record int64, address string) // is told of a member without a key that has not left, the revision of its record, and where it was
	suspected map[Member]int64                             // revisions of the records of those that are without a key now
	addresses map[Member]string                            // that members had last
	known     map[Member]int                               // losses that were reported, or had been followed by another holder when the first view was seen; nil before
}

func (l *lossWatch) see(v view) bool {
	first := l.known == nil
	if first {
		l.known = map[Member]int{}
	}
	for key, e := range v {
		m, ok := lossMember(strings.TrimPrefix(key, l.prefix))
		if !ok {
			continue
		}
		record := parseLossRecord(e.value)
		total := record.losses
		if record.how == recordLost {
			total = record.total()
		}
		held, lives := v[l.prefix+memberKey(m)]
		if lives {
			l.addresses[m] = held.value
		}
		if lives || !record.joined() {
			delete(l.suspected, m)
		} else if l.suspected[m] != e.modified {
			l.suspected[m] = e.modified
			l.suspect(m, e.modified, l.addresses[m])
		}
		if first || total < l.known[m] { // fewer than before: Forget removed the record, and the next attempt began another
			l.known[m] = record.losses
		}
		for ; l.known[m] < total; l.known[m]++ {
			l.report(m)
		}
	}
	return false
}

// scope ends ctx with the handle.
func (r *reader) scope(ctx context.Context) (context.Context, context.CancelFunc) {
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

// storeFault is the function of that name, for the store of this handle.
func (r *reader) storeFault(ctx context.Context, where string, err error) error {
	return storeFault(ctx, r.store.contact(), where, err)
}

// storeFault gives an error of a store a kind and a place.
func storeFault(ctx context.Context, c *contact, where string, err error) error {
	var f *fault.Fault
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		what := "an answer of the store"
		if _, silent := c.silent(); silent != nil {
			what += ": " + silent.Error()
		} else if fault.KindOf(err) == fault.Unavailable {
			what += ": " + err.Error()
		}
		return waits.GaveUp(ctx, where, waits.Wait{What: what})
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
