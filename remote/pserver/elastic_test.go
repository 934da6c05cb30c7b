package pserver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// elasticJob is a syncJob whose members change. What a member sends depends on its rank, the round and the generation, so that the values of another
// generation differ.
type elasticJob struct {
	syncJob
	*testing.T
	server     *pstest.Server
	reference  *pstest.Program // does what the server must do
	generation uint64
	round      uint64 // rounds that count so far
}

// Members change, and rounds are interrupted, dropped or committed by the coordinator. The server always has, bit for bit, what the merge of the
// contributions to the rounds that count makes of the parameters, and the ledger has the records of these contributions.
func TestElasticRounds(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			some := func(list []uint32, least int) []uint32 {
				for {
					if out := slices.DeleteFunc(slices.Clone(list), func(uint32) bool { return random.IntN(2) == 0 }); len(out) >= least {
						return out
					}
				}
			}
			all := []uint32{0, 1, 2, 3}
			j := &elasticJob{T: t, generation: g}
			j.reference, j.server = j.program(), pstest.Start(t, pstest.Config(len(all)), j.program())
			members := all
			for range 8 {
				for range random.IntN(3) { // whole rounds
					j.send(members, members, members)
					j.count(members)
					j.compare(members[0])
				}
				sent := some(members, 0) // and one that is interrupted
				declared := some(sent, 0)
				if len(declared) == len(members) {
					declared = declared[1:]
				}
				j.send(members, sent, declared)
				j.freeze()
				var commit []*rpc.Declared
				if len(sent) == len(members) && random.IntN(2) == 0 { // all barriers are at other servers
					for position := range members {
						commit = append(commit, j.part(members, position))
					}
					j.count(members)
				}
				members = some(all, 1)
				j.resume(members, commit...)
				j.compare(members[0])
			}
			j.freeze()
			j.resume(nil)
			if err := j.server.Wait(); err != nil {
				t.Fatal(err)
			}
			l, err := wire.Ledger(t.Context(), "pserver 0", j.server.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job, Ranges: true, Pass: 2})
			if err != nil || l.Round != j.round || len(l.Passes) != 1 || l.Passes[0].Records != int64(10*j.round) || l.Passes[0].Again != 0 ||
				len(l.Passes[0].Committed) != 1 {
				t.Errorf("the ledger says %v, %v; want 10 records of each of %d rounds", l, err, j.round)
			}
		})
	}
}

// part is what a member declares for the open round: it has its part of the ten records of the round.
func (j *elasticJob) part(members []uint32, position int) *rpc.Declared {
	n, first := len(members), int64(10*j.round)
	d := &rpc.Declared{Rank: members[position], Rows: j.rows(int(members[position]), j.round), Pass: 2}
	if from, to := first+int64(10*position/n), first+int64(10*(position+1)/n); from < to {
		d.Records = []*rpc.RecordRange{{From: from, To: to}}
	}
	return d
}

// value is what a member sends for a variable in this generation.
func (j *elasticJob) value(rank uint32, name string) *tensor.Tensor {
	return j.syncJob.share(int(rank), j.round+1000*j.generation, name)
}

// send lets members send their contributions to the open round, all at the same time, and some of those declare them.
func (j *elasticJob) send(members, sent, declared []uint32) {
	err := pstest.Parallel(len(members), func(position int) error {
		rank := members[position]
		trainer, part, n := pstest.Trainer{Client: j.server.Client, Rank: rank, Generation: j.generation}, j.part(members, position), 0
		if !slices.Contains(sent, rank) {
			return nil
		}
		for _, name := range j.names() {
			if part.Rows > 0 {
				if _, err := trainer.Send(j.Context(), j.round, name, j.value(rank, name)); err != nil {
					return err
				}
				n++
			}
		}
		if !slices.Contains(declared, rank) {
			return nil
		}
		return trainer.Declare(j.Context(), j.round, part, n)
	})
	if err != nil {
		j.Fatal(err)
	}
}

// count trains the open round in the reference, and opens the next one.
func (j *elasticJob) count(members []uint32) {
	p := j.reference
	before := clone(p.Variables)
	var from []uint32
	for _, rank := range members {
		if j.rows(int(rank), j.round) > 0 {
			from = append(from, rank)
		}
	}
	for _, c := range slices.Concat(p.Service.Grads, p.Service.States) {
		var shares []merge.Share
		for _, rank := range from {
			shares = append(shares, merge.Share{Value: j.value(rank, c.Name), Rows: j.rows(int(rank), j.round)})
		}
		if len(shares) == 0 {
			continue
		}
		err := merge.Gradients(p.Variables[c.Name], shares, c.Merge)
		if c.Block == comm.NoBlock && c.Merge == ops.MergeSum {
			err = merge.State(p.Variables[c.Name], before[c.Name], shares, c.Merge)
		}
		if err != nil {
			j.Fatal(err)
		}
	}
	for _, b := range p.Service.Optimize {
		if len(from) == 0 {
			break
		}
		if err := p.RunBlock(j.Context(), b, ops.Step{}); err != nil {
			j.Fatal(err)
		}
	}
	j.round++
}

// compare reads all variables as a member.
func (j *elasticJob) compare(rank uint32) {
	for _, name := range []string{"w0", "w1", "mean", "count"} {
		want := j.reference.Variables[name]
		trainer := pstest.Trainer{Client: j.server.Client, Rank: rank, Generation: j.generation}
		got, _, err := trainer.Get(j.Context(), j.round, name, int64(want.Len()))
		if err != nil || !slices.Equal(got.Float32s(), want.Float32s()) {
			j.Fatalf("generation %d, after %d rounds, %s: got %v, want %v; %v", j.generation, j.round, name, got.Float32s(), want.Float32s(), err)
		}
	}
}

func (j *elasticJob) freeze() {
	if _, err := j.server.Freeze(j.generation); err != nil {
		j.Fatal(err)
	}
}

func (j *elasticJob) resume(members []uint32, commit ...*rpc.Declared) {
	j.generation++
	if err := j.server.Resume(j.generation, j.round, pstest.Members(members...), commit...); err != nil {
		j.Fatal(err)
	}
}
