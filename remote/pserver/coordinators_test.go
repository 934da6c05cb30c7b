package pserver_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A coordinator that another one has followed is refused, and so is one that decides on what is not here.
func TestRefusedCoordinators(t *testing.T) {
	s := rig.Start(t, rig.Config(2), rig.SGD(0, true, 1, 2))
	ctx, members := t.Context(), rig.Members(0, 1)
	newer, older, foreign := rig.Identity, rig.Identity, rig.Identity
	newer.Fence, older.Fence, foreign.Job = 20, 19, "other"
	for name, c := range map[string]struct {
		call func() error
		kind fault.Kind
	}{
		"Freeze of another job": {func() error { _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: foreign.Of(0, 0, 0)}); return err },
			fault.Foreign},
		"Freeze of nobody": {func() error { _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{}); return err }, fault.Foreign},
		"Resume of another job": {func() error { _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: foreign.Of(0, 0, 0)}); return err },
			fault.Foreign},
		"Freeze of old generations": {func() error { _, err := s.Freeze(g - 1); return err }, fault.Stale},
		"Resume of old generations": {func() error { return s.Resume(g-1, 0, nil) }, fault.Stale},
		"Resume without Freeze":     {func() error { return s.Resume(g+1, 0, members) }, fault.Internal},
		"ranks out of range":        {func() error { return s.Resume(g+1, 0, rig.Members(2)) }, fault.InvalidArgument},
		"impossible records": {func() error {
			return s.Resume(g+1, 1, members, &rpc.Declared{Rows: 1, Records: []*rpc.RecordRange{{From: 3, To: 2}}})
		}, fault.InvalidArgument},
	} {
		if err := c.call(); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	// A trainer's word is enough to refuse the coordinator that was followed.
	if _, err := s.Client.SendBarrier(ctx, &rpc.BarrierRequest{Id: newer.Of(0, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: older.Of(0, 0, 0)}); !errors.Is(err, fault.Fenced) {
		t.Errorf("a coordinator that was followed: %v", err)
	}
	if _, err := s.Client.Freeze(ctx, &rpc.FreezeRequest{Id: newer.Of(0, 0, 0)}); err != nil {
		t.Error(err)
	}
	older.Generation++
	if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: older.Of(0, 0, 0), Members: members}); !errors.Is(err, fault.Fenced) {
		t.Errorf("a coordinator that was followed: %v", err)
	}
	newer.Generation++
	if _, err := s.Client.Resume(ctx, &rpc.ResumeRequest{Id: newer.Of(0, 0, 0), Members: members, Round: 1,
		Commit: []*rpc.Declared{{Rank: 1, Rows: 2}}}); !errors.Is(err, fault.Internal) {
		t.Errorf("a commit of what is not here: %v", err)
	}
	if status, err := s.Client.Status(ctx, &rpc.StatusRequest{Job: rig.Identity.Job}); err != nil || status.Generation != g {
		t.Error(status, err)
	}
}
