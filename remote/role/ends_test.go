package role

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// The error of a role names the role and keeps all that it tells, of what kind it is first.
func TestErrorsOfARole(t *testing.T) {
	nameless, named := fault.New(fault.NotFinite, "NaN"), fault.E(fault.NotFound, fault.At("data"), fault.Got("nothing"))
	late := fault.E(fault.Unavailable, fault.At("etcd"), fault.Got("no answer"))
	for _, c := range []struct {
		err  error
		kind fault.Kind
		says []string
	}{
		{nameless, fault.NotFinite, []string{"trainer-1", "NaN"}},
		{named, fault.NotFound, []string{"data", "nothing"}},
		{errors.New("odd"), fault.Internal, []string{"trainer-1", "odd"}},
		{errors.Join(nameless, late), fault.NotFinite, []string{"trainer-1", "NaN", "no answer"}},
		{errors.Join(named, late), fault.NotFound, []string{"data", "nothing", "no answer"}},
	} {
		err := inRole("trainer-1", c.err)
		if fault.KindOf(err) != c.kind {
			t.Errorf("%v: of kind %v, want %v", err, fault.KindOf(err), c.kind)
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: does not say %q", err, want)
			}
		}
	}
	if err := inRole("trainer-1", nil); err != nil {
		t.Error(err)
	}
}

// A trainer that is told to end in order before it has joined has ended in order; of another role that is no order.
func TestDrainedBeforeItBegins(t *testing.T) {
	drained, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Drained, "terminated"))
	canceled := fault.E(fault.Canceled, fault.At("etcd"))
	for _, c := range []struct {
		ctx  context.Context
		role job.Role
		err  error
		kind fault.Kind
	}{
		{drained, job.Role_TRAINER, canceled, fault.Drained},
		{drained, job.Role_PSERVER, canceled, fault.Canceled},
		{drained, job.Role_TRAINER, fault.New(fault.Fenced, "another"), fault.Fenced},
		{drained, job.Role_TRAINER, nil, fault.OK},
		{t.Context(), job.Role_TRAINER, canceled, fault.Canceled},
	} {
		if err := unbegun(c.ctx, c.role, c.err); fault.KindOf(err) != c.kind {
			t.Errorf("%v of %v: %v", c.err, c.role, err)
		}
	}
}
