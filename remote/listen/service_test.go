package listen_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// Stop ends a job before its time; it says so, and it is no failure of a role.
func TestStop(t *testing.T) {
	h := newHouse(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	spec := reading(t)
	spec.Passes = 1 << 20
	j := h.begin(t, spec)
	stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID})
	if err != nil {
		t.Fatal(err)
	}
	var last job.State
	stopped := false
	follow(t, stream.Recv, func(e *job.Event) {
		if e.GetStep() != nil && !stopped {
			stopped = true
			if s, err := client.Stop(bounded(t), &rpc.JobRequest{Job: j.ID}); err != nil || s.State != job.State_STOPPED {
				t.Errorf("%v, %v", s, err)
			}
		}
		if s := e.GetStatus(); s != nil {
			last = s.State
		}
	})
	if err := j.Wait(bounded(t)); last != job.State_STOPPED || !errors.Is(err, fault.Canceled) {
		t.Errorf("the job is %v: %v", last, err)
	}
	if _, err := client.Stop(bounded(t), &rpc.JobRequest{Job: j.ID}); err != nil {
		t.Errorf("stopping a job that has ended: %v", err)
	}
}

// Finish ends a session in good order, and is not for jobs that end by themselves.
func TestFinish(t *testing.T) {
	h := newHouse(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	session := h.begin(t, fed(t))
	s, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: session.ID})
	if err != nil || s.State != job.State_SUCCEEDED {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := client.Finish(bounded(t), &rpc.FinishRequest{Job: session.ID}); !errors.Is(wire.FromStatus("", err), fault.Unavailable) {
		t.Errorf("a session that has ended: %v", err)
	}
	_, err = client.Finish(bounded(t), &rpc.FinishRequest{Job: h.begin(t, reading(t)).ID})
	if !errors.Is(wire.FromStatus("", err), fault.InvalidArgument) {
		t.Errorf("a job that reads its own data: %v", err)
	}
}

// The listener says who it is and what it has.
func TestDescribeAndList(t *testing.T) {
	h := newHouse(t, listen.Config{}, all(idle))
	client := serve(t, h.Manager)
	d, err := client.Describe(bounded(t), &rpc.DescribeRequest{})
	if err != nil || d.Version != "test" || d.Node != "here" || d.Registry != ops.Fingerprint() {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := client.Status(bounded(t), &rpc.JobRequest{Job: "three"}); err == nil ||
		!strings.HasSuffix(err.Error(), `got job "three", want a job of this listener, which has had none`) {
		t.Errorf("any job: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		h.begin(t, fedAs(t, name))
	}
	list, err := client.List(bounded(t), &rpc.ListRequest{})
	if err != nil || len(list.Jobs) != 2 || list.Jobs[0].Job != "one" || list.Jobs[1].Job != "two" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := client.Status(bounded(t), &rpc.JobRequest{Job: "three"}); !errors.Is(wire.FromStatus("", err), fault.NotFound) ||
		!strings.Contains(err.Error(), "one of one, two") {
		t.Errorf("an unknown job: %v", err)
	}
	stream, err := client.StartRole(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(wire.FromStatus("", err), fault.Unsupported) {
		t.Errorf("a role for a listener of whole jobs: %v", err)
	}
}

// A step for a job that is not there is refused at its first piece.
func TestStepOfAnUnknownJob(t *testing.T) {
	client := serve(t, newHouse(t, listen.Config{}, nil).Manager)
	for name, id := range map[string]*rpc.Identity{"another job": {Job: "other"}, "none": nil} {
		stream, err := client.RunStep(bounded(t))
		if err == nil {
			err = stream.Send(&rpc.Piece{Piece: []byte{0x0a}, Id: id})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(wire.FromStatus("listener", err), fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
