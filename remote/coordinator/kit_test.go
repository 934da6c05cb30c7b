package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is a job with deadlines that no test reaches. Its program declares x, label and y, which are batched, and rate, which is not; what
// trainers fetch merges to the concatenation of their bytes.
func config(trainers int) coordinator.Config {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	for _, name := range []string{"label", "y"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	}
	p.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	return coordinator.Config{Identity: wire.Identity{Job: rig.Identity.Job, Program: rig.Identity.Program}, Program: p, Trainers: trainers, Sync: true,
		Passes: 1, RecordsPerTask: 10, MaxFailures: 1,
		StartDeadline: time.Hour, RejoinDeadline: time.Hour, TaskTimeout: [2]time.Duration{time.Minute, time.Hour},
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
			out := &job.Value{Name: "y"}
			for _, r := range reports {
				for _, v := range r.Fetched {
					out.Stream = append(out.Stream, v.Stream...)
				}
			}
			if bytes.Contains(out.Stream, []byte("broken")) {
				return nil, errors.New("cannot be merged")
			}
			return []*job.Value{out}, nil
		}}
}

// home is a job: what outlives its coordinators.
type home struct {
	t       *testing.T
	cfg     coordinator.Config
	store   *store
	servers []*fakeServer
	live    *alive
	wanted  int // trainers; 0: the minimum
}

func newHome(t *testing.T, cfg coordinator.Config) *home {
	h := &home{t: t, cfg: cfg, store: newStore(), live: &alive{}}
	for range 2 {
		s := &fakeServer{}
		h.servers = append(h.servers, s)
		h.cfg.Servers = append(h.cfg.Servers, s)
	}
	h.cfg.Live = h.live.list
	return h
}

// id is the identity of a trainer in generation 1.
func id(rank uint32, round uint64) *rpc.Identity { return idOf(1, rank, round) }

func idOf(generation uint64, rank uint32, round uint64) *rpc.Identity {
	return &rpc.Identity{Job: rig.Identity.Job, ProgramHash: rig.Identity.Program, Generation: generation, Rank: rank, Round: round}
}

// incarnation is that of the first process of a rank.
func incarnation(rank uint32) uint64 { return 100 + uint64(rank) }

// filesOf makes one file of each number of records.
func filesOf(records ...int64) []*rpc.DataFile {
	var files []*rpc.DataFile
	first := int64(0)
	for i, n := range records {
		files = append(files, &rpc.DataFile{Path: fmt.Sprintf("f%d", i), FirstRecord: first, Records: n, Bytes: 8 * n, Fingerprint: uint64(i)})
		first += n
	}
	return files
}
