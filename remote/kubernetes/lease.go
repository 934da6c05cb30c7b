package kubernetes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
)

// Listeners of one name and namespace elect one of them by a Lease of that name, so that no two give orders to the same pods. The holder writes it every leaseEvery. It gives up
// when it could not for leasePatience, and others take the Lease when they have not seen it change for leaseTime: the difference is the time that the holder has to stop.
// An API server that is away for less than leasePatience changes nothing.
const (
	leaseTime     = 30 * time.Second
	leasePatience = 20 * time.Second
	leaseEvery    = 2 * time.Second
)

// An election decides what one listener does with the Lease. It does no I/O, and has no clock: times are those of its own process, because clocks of machines differ.
type election struct {
	me      string
	seen    string    // holder and version of the Lease that was read last
	since   time.Time // when that was new
	renewed time.Time // when the last request that made this listener the holder was sent; zero: it is not the holder
}

// next returns the Lease to be written at a time, nil: nothing. have is the Lease that was read, nil: there is none.
func (e *election) next(now time.Time, have *coordinationv1.Lease) *coordinationv1.Lease {
	const seconds = int32(leaseTime / time.Second)
	stamp, one := metav1.NewMicroTime(now), int32(1)
	length := seconds
	if have == nil {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &e.me, LeaseDurationSeconds: &length, AcquireTime: &stamp, RenewTime: &stamp, LeaseTransitions: &one}}
	}
	holder := holderOf(have)
	if seen := holder + " " + have.ResourceVersion; seen != e.seen {
		e.seen, e.since = seen, now
	}
	if holder != e.me {
		e.renewed = time.Time{}
	}
	if holder != e.me && holder != "" && now.Sub(e.since) < leaseTime {
		return nil
	}
	write := have.DeepCopy()
	write.Spec.RenewTime, write.Spec.LeaseDurationSeconds = &stamp, &length
	if holder != e.me {
		if have.Spec.LeaseTransitions != nil {
			one += *have.Spec.LeaseTransitions
		}
		write.Spec.HolderIdentity, write.Spec.AcquireTime, write.Spec.LeaseTransitions = &e.me, &stamp, &one
	}
	return write
}

// wrote notes that a Lease of next was written by a request that was sent at a time.
func (e *election) wrote(sent time.Time) { e.renewed = sent }

// holds reports whether this listener may give orders at a time.
func (e *election) holds(now time.Time) bool {
	return !e.renewed.IsZero() && now.Sub(e.renewed) < leasePatience
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// A Term is the time for which a listener is the one of its name. Resign ends it.
type Term struct {
	leases *rest.RESTClient
	at     Settings
	name   string
	log    *slog.Logger
	lost   chan struct{}
	cause  error // valid when lost is closed
	stop   context.CancelFunc
	group  sync.WaitGroup

	election *election // run's
}

// Elect waits until this listener is the one of its name in its namespace, however long, and keeps it so until Resign. me tells this process from all others.
func Elect(ctx context.Context, c *rest.Config, s Settings, me string, log *slog.Logger) (*Term, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	leases, err := clientOf(c, coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	t := &Term{leases: leases, at: s, name: "edl-listener-" + s.Name, log: log, lost: make(chan struct{}), election: &election{me: me}}
	told := ""
	for {
		holder, err := t.turn(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) { // the namespace
			return nil, refused("the lease of the listener", err)
		}
		if err == nil && t.election.holds(time.Now()) {
			break
		}
		if holder != "" && holder != told {
			told = holder
			log.Info("another listener has the name: this one waits until it has gone", "name", s.Name, "holder", holder)
		} else if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			log.Warn("the API server does not say who is the listener of the name", "error", err)
		}
		if err := pause(ctx, leaseEvery); err != nil {
			return nil, err
		}
	}
	holding, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.group.Go(func() { t.hold(holding) })
	return t, nil
}

// pause waits, or returns why it need not.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(context.Cause(ctx)), "listener", context.Cause(ctx))
	}
}

// turn reads the Lease, and writes it if that is due. It returns who has held it when it was read.
func (t *Term) turn(ctx context.Context) (holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseEvery+leaseEvery/2)
	defer cancel()
	have := &coordinationv1.Lease{}
	err = t.leases.Get().Namespace(t.at.Namespace).Resource("leases").Name(t.name).Do(ctx).Into(have)
	if apierrors.IsNotFound(err) {
		have, err = nil, nil
	}
	if err != nil {
		return "", err
	}
	if have != nil {
		holder = holderOf(have)
	}
	sent := time.Now()
	write := t.election.next(sent, have)
	if write == nil {
		return holder, nil
	}
	request := t.leases.Post().Namespace(t.at.Namespace).Resource("leases")
	if have != nil { // refused when it has changed since
		request = t.leases.Put().Namespace(t.at.Namespace).Resource("leases").Name(t.name)
	} else {
		write.ObjectMeta = metav1.ObjectMeta{Name: t.name, Namespace: t.at.Namespace, Labels: map[string]string{labelManagedBy: "edl"}}
	}
	err = request.Body(write).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return holder, nil
	}
	if err == nil {
		t.election.wrote(sent)
	}
	return holder, err
}

// hold writes the Lease until ctx ends, or until it is lost.
func (t *Term) hold(ctx context.Context) {
	var last error
	for pause(ctx, leaseEvery) == nil {
		holder, err := t.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && last == nil {
			t.log.Warn("the lease of the listener cannot be written now", "error", err)
		}
		last = err
		if t.election.holds(time.Now()) {
			continue
		}
		t.cause = fault.E(fault.Unavailable, fault.At("listener "+t.at.Name), fault.Gotf("a lease that could not be written for %v", leasePatience), fault.Cause(err),
			fault.Hint("its jobs go on; the next listener takes them over"))
		if holder != t.election.me && err == nil {
			t.cause = fault.E(fault.Fenced, fault.At("listener "+t.at.Name), fault.Got("another listener of its name: "+holder), fault.Want("one"))
		}
		close(t.lost)
		return
	}
}

// Lost is closed when another listener may be the one of the name. Cause says why.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Cause is why the term was Lost; nil while it is not.
func (t *Term) Cause() error {
	select {
	case <-t.lost:
		return t.cause
	default:
		return nil
	}
}

// Resign ends the term, and lets the next listener begin at once. It is called when this one gives no more orders.
func (t *Term) Resign() {
	t.stop()
	t.group.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	have := &coordinationv1.Lease{}
	err := t.leases.Get().Namespace(t.at.Namespace).Resource("leases").Name(t.name).Do(ctx).Into(have)
	if err != nil || holderOf(have) != t.election.me {
		return // the next one has it, or gets it when leaseTime is over
	}
	nobody := ""
	have.Spec.HolderIdentity = &nobody
	if err := t.leases.Put().Namespace(t.at.Namespace).Resource("leases").Name(t.name).Body(have).Do(ctx).Error(); err != nil {
		t.log.Warn("the next listener has to wait for the end of the lease", "error", err)
	}
}
