package listen

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

func queuesRequest(id string, final bool) *rpc.QueuesRequest {
	return &rpc.QueuesRequest{Job: id, Final: final}
}

// probeRegularly asks all servers once in limits.ProbeEvery. So a silence is noticed when it begins, and after the end of a server its last report is
// known.
func probeRegularly(ctx context.Context, j *Job, p *peers) {
	every := time.NewTicker(j.limits.ProbeEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			probe(ctx, j, p)
		case <-ctx.Done():
			return
		}
	}
}

// probe asks every running server for its report. It takes at most limits.Probe.
func probe(ctx context.Context, j *Job, p *peers) {
	bounded, cancel := context.WithTimeout(ctx, j.limits.Probe)
	defer cancel()
	var group sync.WaitGroup
	asked := time.Now()
	for m, start := range j.serversRunning() {
		group.Go(func() {
			enter, err := askServer(bounded, j, p, m)
			if ctx.Err() != nil {
				return // the caller has gone
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.roles == nil || j.roles.machine.StartsOf(m) != start {
				return // the answer is of an earlier process
			}
			j.reports.heard(m, asked, err)
			if err == nil {
				enter()
			}
		})
	}
	group.Wait()
}

// askServer asks one server, and returns a function that enters the answer. Its caller holds j.mu, and has seen that the server belongs to j.roles.
func askServer(ctx context.Context, j *Job, p *peers, m cluster.Member) (enter func(), err error) {
	asked := time.Now()
	if m.Role == job.Role_COORDINATOR {
		ask := queuesRequest(j.ID, false)
		j.withLock(func() { ask.Files = j.datasets == nil })
		q, err := wire.Queues(ctx, p.coordinator, ask)
		return func() {
			if j.roles.finals.told(m, asked) {
				return
			}
			if j.reports.enterQueues(q); ask.Files && len(q.Datasets) > 0 {
				j.datasets, q.Datasets = q.Datasets, nil
			}
			enterDropped(&j.record, q)
		}, err
	}
	find := p.of.Server
	if m.Role == job.Role_STANDBY {
		find = p.of.Standby
	}
	server, err := find(m.Index)
	if err != nil {
		return nil, err
	}
	s, err := server.Status(ctx, &rpc.StatusRequest{Job: j.ID})
	if err != nil {
		return nil, err
	}
	var ledger *rpc.LedgerResponse
	if m.Index == 0 && m.Role == job.Role_PSERVER {
		ledger, _ = wire.Ledger(ctx, "pserver 0", server, &rpc.LedgerRequest{Job: j.ID}) // without an answer the next probe asks again
	}
	return func() {
		if ledger != nil && !j.roles.finals.told(m, asked) {
			j.reports.ledger = ledger
		}
		if m.Role == job.Role_PSERVER {
			j.addServer(m, s)
		}
	}, nil
}

// reports are the last reports of the servers of a job. They outlive the servers.
type reports struct {
	queues  *rpc.QueuesResponse
	saved   *job.CheckpointStatus // the last checkpoint that the listener has heard of, or gone back to
	ledger  *rpc.LedgerResponse
	servers map[int]*rpc.StatusResponse
	refused map[int]uint64 // messages, by pserver
	silent  map[cluster.Member]silence
	handles map[cluster.Member]launch.Handle // of the last process of each role, which knows what the role says that it waits for
}

// enterQueues enters an answer of the coordinator. It may be older than the answer to the last request for a checkpoint, or be that of
// the coordinator of a new attempt, and says less of checkpoints then.
func (r *reports) enterQueues(q *rpc.QueuesResponse) {
	if c := q.GetCheckpoint(); c.GetName() != "" && c.Steps >= r.saved.GetSteps() { // the next coordinator does not know it
		r.saved = &job.CheckpointStatus{Store: c.Store, Name: c.Name, Steps: c.Steps, Bytes: c.Bytes, CreatedMs: c.CreatedMs}
	}
	if q != nil && q.Checkpoint.GetSteps() < r.saved.GetSteps() {
		q = proto.CloneOf(q)
		known := q.Checkpoint
		q.Checkpoint = proto.CloneOf(r.saved)
		q.Checkpoint.FailingSinceMs, q.Checkpoint.Failure = known.GetFailingSinceMs(), known.GetFailure()
	}
	r.queues = q
}

// enterDropped enters how many rounds count without each trainer.
func enterDropped(r *record, q *rpc.QueuesResponse) {
	for rank, rounds := range q.GetDropped() {
		r.role(cluster.Member{Role: job.Role_TRAINER, Index: int(rank)}).Dropped = rounds
	}
}

// enterSaved enters a checkpoint that the listener has asked for. The coordinator of a young attempt may have said nothing else yet.
func (r *reports) enterSaved(last *job.CheckpointStatus) {
	r.saved = last
	if r.queues == nil && last != nil {
		r.queues = &rpc.QueuesResponse{Checkpoint: last}
	}
	r.enterQueues(r.queues)
}

// forgetSaved forgets a checkpoint that the job has not gone back to.
func (r *reports) forgetSaved() {
	if r.saved = nil; r.queues.GetCheckpoint() != nil {
		r.queues = proto.CloneOf(r.queues)
		r.queues.Checkpoint = nil
	}
}

// tables lists what the pservers have reported of tables. There are so many pservers now.
func (r *reports) tables(pservers int) (all []*rpc.TableUse) {
	for server := range pservers {
		all = append(all, r.servers[server].GetTables()...)
	}
	return all
}

// silence is a server that was asked and has not answered.
type silence struct {
	since time.Time // time of the first call without an answer
	err   error     // of the last call
}

func newReports() reports {
	return reports{servers: map[int]*rpc.StatusResponse{}, refused: map[int]uint64{}, silent: map[cluster.Member]silence{},
		handles: map[cluster.Member]launch.Handle{}}
}

// forget drops the reports of an attempt that has ended.
func (k *reports) forget() { *k = newReports() }

// startsAgain drops the reports of the last process of a role.
func (k *reports) startsAgain(m cluster.Member) {
	delete(k.silent, m)
	delete(k.handles, m)
}

// heard notes whether a server has answered.
func (k *reports) heard(m cluster.Member, asked time.Time, err error) {
	if err == nil {
		delete(k.silent, m)
		return
	}
	s, ok := k.silent[m]
	if !ok {
		s.since = asked
	}
	s.err = err
	k.silent[m] = s
}

// peers are connections to the servers of a job. They follow a server to the address of its next process.
type peers struct {
	of          *cluster.Peers
	coordinator rpc.CoordinatorClient
}

func newPeers(of *cluster.Peers) (*peers, error) {
	coordinator, err := of.Coordinator()
	return &peers{of: of, coordinator: coordinator}, err
}
