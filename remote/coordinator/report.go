package coordinator

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
)

// ReportDataset hands the message that comes in pieces to TakeDataset.
func (s *Server) ReportDataset(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportDatasetResponse]) error {
	m := &rpc.ReportDatasetRequest{}
	var id *rpc.Identity
	if err := wire.ReceiveFrom("trainer", stream, m, wire.MaxDataset, s.admitFirst(stream.Context(), &id)); err != nil {
		return err
	}
	m.Id = id
	if err := s.TakeDataset(stream.Context(), m); err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportDatasetResponse{})
}

// TakeDataset takes the list of files of a dataset. Every trainer reports; the first call counts, for all coordinators of the job, and a later one
// that differs is an error that names both.
func (s *Server) TakeDataset(ctx context.Context, m *rpc.ReportDatasetRequest) error {
	if err := s.admit(ctx, m.Id); err != nil {
		return err
	}
	name := m.Dataset.GetName()
	return s.transact(ctx, func(t *txn) error {
		q, ok := t.queues[name]
		if !ok {
			return t.create(queue.Dataset{Name: name, Files: m.Dataset.GetFiles()})
		}
		if slices.EqualFunc(q.Files(), m.Dataset.GetFiles(), func(a, b *rpc.DataFile) bool { return proto.Equal(a, b) }) {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)),
			fault.Got(describe(m.Dataset.GetFiles(), q.Files())+" from "+trainerName(m.Id.Rank)),
			fault.Want(describe(q.Files(), m.Dataset.GetFiles())+", as first reported"), fault.Hint("give every trainer the same files"))
	})
}

// create makes a queue.
func (t *txn) create(d queue.Dataset) error {
	q, effects, err := queue.New(t.server.cfg.queuePolicy(t.server.epoch), d)
	if err != nil {
		return err
	}
	t.queues[d.Name] = q
	t.enter(d.Name, effects)
	return nil
}

// describe tells what files have that others do not.
func describe(files, others []*rpc.DataFile) string {
	records, first := int64(0), ""
	for i, f := range files {
		records += f.Records
		if first == "" && (i >= len(others) || !proto.Equal(f, others[i])) {
			first = fmt.Sprintf(", of which %s has %d records in %d bytes", fault.Quote(f.Path), f.Records, f.Bytes)
			if i < len(others) && f.Path == others[i].GetPath() && f.Records == others[i].Records && f.Bytes == others[i].Bytes {
				first += fmt.Sprintf(" with fingerprint %016x", f.Fingerprint)
			}
		}
	}
	return fmt.Sprintf("%d records in %d files%s", records, len(files), first)
}
