package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// JobSpec says what cluster a job wants: trainers, pservers, mode, deadlines. The zero value is one trainer and one pserver in sync mode.
type JobSpec = job.JobSpec

// Executor runs programs on a cluster. It is what RemoteExecutor is in Fluid's design, and implements executor.Executor. Its methods may be
// called from several goroutines; steps run one at a time.
type Executor struct {
	client   *Client
	embedded *Listener // nil when the listener is another's
	spec     *JobSpec
	open     context.Context // until Close
	shut     context.CancelFunc

	mu      sync.Mutex
	session *session
	local   *executor.Local // runs programs that train nothing
	closed  bool
}

var _ executor.Executor = (*Executor)(nil)

// dialTime bounds the wait for a listener that has just been started.
const (
	dialTime  = 3 * time.Second
	dialPause = 50 * time.Millisecond
)

// embedTime bounds the start of an embedded listener, with its etcd.
const embedTime = 30 * time.Second

// NewExecutor connects to the listener at address, or starts an embedded one when address is empty. spec is the template of every job that
// the executor submits; its program, data, passes, fetches and save directory come from the calls.
func NewExecutor(address string, spec *JobSpec, options ...Option) (*Executor, error) {
	if spec == nil {
		spec = &JobSpec{}
	}
	e := &Executor{spec: proto.Clone(spec).(*JobSpec)}
	e.open, e.shut = context.WithCancel(context.Background())
	if address == "" {
		ctx, cancel := context.WithTimeout(context.Background(), embedTime)
		defer cancel()
		var err error
		if e.embedded, err = Listen(ctx, options...); err != nil {
			return nil, err
		}
		address = e.embedded.Address()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var err error
	if e.client, err = dialSoon(ctx, address); err != nil {
		if e.embedded != nil {
			err = errors.Join(err, e.embedded.Close())
		}
		return nil, err
	}
	return e, nil
}

// dialSoon is Dial for a listener that may need a moment before it is there.
func dialSoon(ctx context.Context, address string) (*Client, error) {
	for {
		c, err := Dial(ctx, address)
		if !errors.Is(err, fault.Unavailable) {
			return c, err
		}
		timer := time.NewTimer(dialPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// Client returns the connection to the listener, for status and logs.
func (e *Executor) Client() *Client { return e.client }

// finishTime bounds the orderly end of an interactive job in Close.
const finishTime = time.Minute

// Close gives up the step that is under way, ends the interactive job, saving its model
// if the JobSpec says so, and the embedded cluster. A second call does nothing.
func (e *Executor) Close() error {
	e.shut()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var err error
	if e.session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), finishTime)
		defer cancel()
		err = e.client.Finish(ctx, e.session.id)
		e.session = nil
	}
	if e.local != nil {
		err = errors.Join(err, e.local.Close())
		e.local = nil
	}
	err = errors.Join(err, e.client.Close())
	if e.embedded != nil {
		err = errors.Join(err, e.embedded.Close())
	}
	return err
}
