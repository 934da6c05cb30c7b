package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// calls are the calls of a trainer, by name.
func (s running) calls(who *rpc.Identity) map[string]error {
	ctx := s.home.t.Context()
	errs := map[string]error{}
	errs["ReportDataset"] = wire.ReportDataset(ctx, s.client, &rpc.ReportDatasetRequest{Id: who})
	_, errs["GetTask"] = s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: who, Dataset: "d"})
	_, errs["TaskFailed"] = s.client.TaskFailed(ctx, &rpc.TaskFailedRequest{Id: who, Task: &rpc.Task{Dataset: "d"}})
	_, errs["RequestSaveModel"] = s.client.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: who})
	_, errs["Leave"] = s.client.Leave(ctx, &rpc.LeaveRequest{Id: who})
	errs["ReportStep"] = s.report(ctx, &rpc.TrainerStep{Id: who})
	return errs
}

func TestStrangersAreRefused(t *testing.T) {
	s := start(t, config(2))
	s.joinAll(0, 0, 1)
	s.reportDataset(t, 30)
	stranger, program := idOf(1, 0, 0), idOf(1, 0, 0)
	stranger.Job, program.ProgramHash = "other", []byte{9}
	for what, who := range map[string]*rpc.Identity{"job": stranger, "program": program, "rank": id(2, 0), "nobody": nil} {
		for call, err := range s.calls(who) {
			if !errors.Is(err, fault.Foreign) {
				t.Errorf("%s of another %s: %v", call, what, err)
			}
		}
	}
	if _, err := s.client.CloseFeed(t.Context(), &rpc.CloseFeedRequest{Id: stranger}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	if _, err := wire.Queues(t.Context(), s.client, &rpc.QueuesRequest{Job: "other"}); !errors.Is(err, fault.Foreign) {
		t.Error(err)
	}
	watch, err := s.client.Watch(t.Context(), &rpc.WatchRequest{Job: "other"})
	if err == nil {
		_, err = watch.Recv()
	}
	if !errors.Is(wire.FromStatus("coordinator", err), fault.Foreign) {
		t.Error(err)
	}
	_, err = s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: idOf(0, 0, 0), Dataset: "d"})
	if !errors.Is(err, fault.Superseded) {
		t.Errorf("a task for a generation that has ended: %v", err)
	}
}

// A stranger is refused at the first piece of what it has to say, and not asked for the rest.
func TestStrangersAreNotHeardOut(t *testing.T) {
	cfg := config(1)
	cfg.Fed = true
	s := start(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	type call interface {
		grpc.ClientStream
		Send(*rpc.Piece) error
	}
	for name, begin := range map[string]func() (call, error){
		"ReportDataset": func() (call, error) { return s.client.ReportDataset(ctx) },
		"ReportStep":    func() (call, error) { return s.client.ReportStep(ctx) },
		"Feed":          func() (call, error) { return s.client.Feed(ctx) },
	} {
		for what, who := range map[string]*rpc.Identity{
			"job": {Job: "other", ProgramHash: rig.Identity.Program}, "program": {Job: rig.Identity.Job, ProgramHash: []byte{9}}, "nobody": nil,
		} {
			stream, err := begin()
			if err == nil {
				err = stream.Send(&rpc.Piece{Piece: []byte{0x0a}, Id: who})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := wire.FromStatus("coordinator", stream.RecvMsg(&rpc.Piece{})); !errors.Is(err, fault.Foreign) {
				t.Errorf("%s of another %s: %v", name, what, err)
			}
		}
	}
}
