package role

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// fenced returns the loss of the lease as the error, when that is why a role ended.
func fenced(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, fault.Fenced) {
		return cause
	}
	return err
}

// whyEnded returns why a role had to end, where err is only what followed from it: it has lost its lease, or cannot find the others any more.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, fault.Unavailable) {
		return cause
	}
	return fenced(ctx, err)
}

// unbegun makes an end in order of that of a trainer which was told to end so while it was about to begin: it is nobody's failure.
func unbegun(ctx context.Context, role job.Role, err error) error {
	if cause := context.Cause(ctx); role == job.Role_TRAINER && fault.KindOf(err) == fault.Canceled && errors.Is(cause, fault.Drained) {
		return cause
	}
	return err
}

// inRole says in which role an error occurred, without hiding its kind.
func inRole(name string, err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	switch found := errors.As(err, &f); {
	case found && f.Where != "":
		return err
	case !found || f.Error() != err.Error(): // there is more to tell than this fault
		return fault.E(fault.KindOf(err), fault.At(name), fault.Cause(err))
	}
	c := *f
	c.Where = name
	return &c
}
