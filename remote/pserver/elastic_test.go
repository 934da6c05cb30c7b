package pserver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// elasticJob is a syncJob whose members change. What a member sends follows from its rank, the round and the generation, so that nothing of another
// generation can pass for it.
type elasticJob struct {
	syncJob
	*testing.T
	server     *rig.Server
	reference  *rig.Program // does what the server must do
	generation uint64
	round      uint64 // rounds that count so far
}

// Whatever the members of generations are, and however rounds are interrupted, given up or committed by the coordinator, the server holds bit for bit
// what merging the contributions of the rounds that count, in rank order and weighted by their rows, makes of the parameters; and the ledger has the
// records of those.
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
			j.reference, j.server = j.program(), rig.Start(t, rig.Config(len(all)), j.program())
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
			l, err := wire.Ledger(t.Context(), "pserver 0", j.server.Client, &rpc.LedgerRequest{Job: rig.Identity.Job, Ranges: true, Pass: 2})
			if err != nil || l.Round != j.round || len(l.Passes) != 1 || l.Passes[0].Records != int64(10*j.round) || l.Passes[0].Again != 0 ||
				len(l.Passes[0].Committed) != 1 {
				t.Errorf("the ledger says %v, %v; want 10 records of each of %d rounds", l, err, j.round)
			}
		})
	}
}
