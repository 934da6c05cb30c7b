package launch

import (
	"context"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// maxRenewal bounds an encoded job.RoleRenewal in bytes.
const maxRenewal = 256 << 10

// renewals holds the last renewal that a role has not taken yet.
type renewals chan *job.RoleRenewal

func newRenewals() renewals { return make(renewals, 1) }

// put replaces what was not taken. One goroutine at a time calls it.
func (r renewals) put(m *job.RoleRenewal) {
	select {
	case <-r:
	default:
	}
	r <- m
}

// read takes frames until there are no more. After one that no launcher sends nothing is taken.
func (r renewals) read(from io.Reader) {
	for {
		m := &job.RoleRenewal{}
		if readFrame(from, stdin, maxRenewal, m) != nil {
			return
		}
		r.put(m)
	}
}

// renewalsKey is the key of the renewals in the context of a role that is a goroutine.
type renewalsKey struct{}

// RenewalsOf returns the renewals of a role that runs as a goroutine of this process; ctx is the context that the role was given. In any other context there are none.
func RenewalsOf(ctx context.Context) <-chan *job.RoleRenewal {
	r, _ := ctx.Value(renewalsKey{}).(renewals)
	return r
}

// ended is the error of a renewal for a role that takes none any more.
func ended(name string, cause error) error {
	return fault.E(fault.Unavailable, fault.At(name), fault.Got("new credentials for a role that takes none any more"), fault.Cause(cause))
}

// Renew passes the renewal on over the pipe to the process, which reads it at once unless it is paused.
func (h *process) Renew(m *job.RoleRenewal) error {
	b, err := frame(m)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, h.name, err)
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	if _, err := h.stdin.Write(b); err != nil {
		return ended(h.name, err)
	}
	return nil
}

// Renew lets the role take the renewal.
func (h *goroutine) Renew(m *job.RoleRenewal) error {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	select {
	case <-h.done:
		return ended(h.name, h.err)
	default:
	}
	h.renewals.put(m)
	return nil
}

// errAsked is the cause of the error of a renewal for a role that was asked to end.
var errAsked = errors.New("it was asked to end")
