package pserver_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/tensor"
)

func refusals(t *testing.T, s *rig.Server) map[string]uint64 {
	r, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: rig.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	return r.Refused
}

// Messages that were applied before, are late, or are not of this job are refused with their kind and counted, and the parameter becomes what
// the honest ones make of it.
func TestRefusedMessagesChangeNothing(t *testing.T) {
	ctx := t.Context()
	p := rig.SGD(0, true, 1, 4)
	s := rig.Start(t, rig.Config(2), p)
	a, b := rig.Trainer{Client: s.Client, Rank: 0}, rig.Trainer{Client: s.Client, Rank: 1}
	one, wild := rig.Filled(4, 1), rig.Filled(4, 1e6)

	round := func(round uint64) {
		for _, trainer := range []rig.Trainer{a, b} {
			if duplicate, err := trainer.Send(ctx, round, "w0@GRAD", one); err != nil || duplicate {
				t.Fatal(duplicate, err)
			}
		}
		if duplicate, err := a.Send(ctx, round, "w0@GRAD", wild); err != nil || !duplicate {
			t.Errorf("sent twice: duplicate %v, %v", duplicate, err)
		}
		for _, trainer := range []rig.Trainer{a, a, b} {
			if err := trainer.Barrier(ctx, round, 1, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	if w, _, err := b.Get(ctx, 1, "w0", 4); err != nil || w.Float32s()[3] != -1 {
		t.Fatal(w, err)
	}
	round(1)
	if w, _, err := a.Get(ctx, 2, "w0", 4); err != nil || w.Float32s()[0] != -2 {
		t.Fatal(w, err)
	}

	otherJob, otherProgram, older := rig.Identity, rig.Identity, rig.Identity
	otherJob.Job, otherProgram.Program, older.Generation = "other", []byte{9}, 6
	for name, c := range map[string]struct {
		id       *rpc.Identity
		variable string
		value    *tensor.Tensor
		kind     fault.Kind
	}{
		"another job":        {otherJob.Of(0, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"another program":    {otherProgram.Of(0, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"an old generation":  {older.Of(0, 2, 0), "w0@GRAD", wild, fault.Superseded},
		"no identity":        {nil, "w0@GRAD", wild, fault.Foreign},
		"an old round":       {rig.Identity.Of(0, 0, 0), "w0@GRAD", wild, fault.Stale},
		"a round to come":    {rig.Identity.Of(0, 9, 0), "w0@GRAD", wild, fault.Foreign},
		"an unknown trainer": {rig.Identity.Of(2, 2, 0), "w0@GRAD", wild, fault.Foreign},
		"an unknown name":    {rig.Identity.Of(0, 2, 0), "w0", wild, fault.Foreign},
		"another shape":      {rig.Identity.Of(0, 2, 0), "w0@GRAD", rig.Vector(5), fault.ShapeMismatch},
	} {
		if _, err := a.SendAs(ctx, c.id, c.variable, c.value); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if duplicate, err := a.Send(ctx, 1, "w0@GRAD", wild); err != nil || !duplicate {
		t.Errorf("a replay of the last round: duplicate %v, %v", duplicate, err)
	}
	if err := a.Barrier(ctx, 0, 1, 1); !errors.Is(err, fault.Stale) {
		t.Errorf("a barrier of an old round: %v", err)
	}
	if err := a.Barrier(ctx, 2, 5, 1); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a barrier without its contribution: %v", err)
	}
	if err := (rig.Trainer{Client: s.Client, Rank: 2}).Complete(ctx); !errors.Is(err, fault.Foreign) {
		t.Errorf("the completion of an unknown trainer: %v", err)
	}
	round(2)
	if w, _, err := a.Get(ctx, 3, "w0", 4); err != nil || !slices.Equal(w.Float32s(), []float32{-3, -3, -3, -3}) {
		t.Errorf("%v %v", w.Float32s(), err)
	}
	want := map[string]uint64{"duplicate message": 7, "stale message": 2, "superseded": 1, "message of another job": 7, "invalid argument": 1}
	if got := refusals(t, s); !maps.Equal(got, want) {
		t.Errorf("refused %v, want %v", got, want)
	}
}

func TestRefusedRequests(t *testing.T) {
	ctx := t.Context()
	s := rig.Start(t, rig.Config(1), rig.SGD(0, true, 1, 4))
	a := rig.Trainer{Client: s.Client}
	foreign := rig.Identity
	foreign.Job = "other"
	for name, c := range map[string]struct {
		m    *rpc.GetRequest
		kind fault.Kind
	}{
		"another job":         {&rpc.GetRequest{Id: foreign.Of(0, 0, 0), Name: "w0"}, fault.Foreign},
		"an unknown trainer":  {&rpc.GetRequest{Id: rig.Identity.Of(3, 0, 0), Name: "w0"}, fault.Foreign},
		"an unknown variable": {&rpc.GetRequest{Id: rig.Identity.Of(0, 0, 0), Name: "w7"}, fault.NotFound},
		"a version to come":   {&rpc.GetRequest{Id: rig.Identity.Of(0, 2, 0), Name: "w0"}, fault.Foreign},
		"of another server":   {&rpc.GetRequest{Id: foreign.Of(0, 0, 0), Name: "norm", Exchange: true}, fault.Foreign},
	} {
		if _, _, err := a.GetAs(ctx, c.m, 4); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if err := a.Barrier(ctx, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(ctx, 1, "w0", 4); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(ctx, 0, "w0", 4); !errors.Is(err, fault.Stale) {
		t.Errorf("a version that has passed: %v", err)
	}
	if _, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Errorf("the status of another job: %v", err)
	}
	r, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: rig.Identity.Job})
	if err != nil || r.Round != 1 || r.Bytes != 16 {
		t.Errorf("status %v, %v; want round 1 and 16 bytes", r, err)
	}
}
