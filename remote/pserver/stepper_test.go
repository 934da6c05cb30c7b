package pserver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// syncJob is a job of two gradients, one merged by mean and one by sum, and two states. What a trainer sends depends on its rank and the round.
type syncJob struct {
	trainers int
	rounds   []uint64 // that each trainer takes part in
}

const syncSize = 5

func (j syncJob) program() *pstest.Program {
	p := pstest.SGD(0, true, 0.5, syncSize, syncSize)
	p.Service.Grads[1].Merge = ops.MergeSum
	p.Service.States = []comm.Contribution{{Name: "mean", Block: comm.NoBlock, Merge: ops.MergeMean},
		{Name: "count", Block: comm.NoBlock, Merge: ops.MergeSum}}
	p.Variables["mean"], p.Variables["count"] = pstest.Vector(syncSize), pstest.Vector(1)
	return p
}

func (j syncJob) names() []string { return []string{"w0@GRAD", "w1@GRAD", "mean", "count"} }

// rows is a trainer's share of a round; trainer 1 has none in odd rounds.
func (j syncJob) rows(rank int, round uint64) int64 {
	if rank == 1 && round%2 == 1 {
		return 0
	}
	return int64(rank) + int64(round%3) + 1
}

func (j syncJob) share(rank int, round uint64, name string) *tensor.Tensor {
	n := int64(syncSize)
	if name == "count" {
		n = 1
	}
	v := pstest.Vector(n)
	for i := range v.Float32s() {
		v.Float32s()[i] = 1/float32(3+i+rank) + float32(round)*0.1 + float32(len(name))
	}
	return v
}

// want computes what the server holds after each round.
func (j syncJob) want(t *testing.T) []map[string]*tensor.Tensor {
	p := j.program()
	state := []map[string]*tensor.Tensor{clone(p.Variables)}
	for round := range slices.Max(j.rounds) {
		var shares []int
		for rank := range j.trainers {
			if round < j.rounds[rank] && j.rows(rank, round) > 0 {
				shares = append(shares, rank)
			}
		}
		if len(shares) > 0 {
			for _, c := range append(slices.Clone(p.Service.Grads), p.Service.States...) {
				var list []merge.Share
				for _, rank := range shares {
					list = append(list, merge.Share{Value: j.share(rank, round, c.Name), Rows: j.rows(rank, round)})
				}
				target := p.Variables[c.Name]
				err := merge.Gradients(target, list, c.Merge)
				if c.Block == comm.NoBlock && c.Merge == ops.MergeSum {
					err = merge.State(target, state[round][c.Name], list, c.Merge)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range p.Service.Optimize {
				if err := p.RunBlock(t.Context(), b, ops.Step{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		state = append(state, clone(p.Variables))
	}
	return state
}

func clone(variables map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, v := range variables {
		out[name] = v.Clone()
	}
	return out
}

// train runs one trainer and checks every version that it receives.
func (j syncJob) train(t *testing.T, s *pstest.Server, rank int, want []map[string]*tensor.Tensor) error {
	ctx, trainer := t.Context(), pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
	get := func(version uint64) error {
		for _, name := range []string{"w0", "w1", "mean", "count"} {
			target := want[version][name]
			got, have, err := trainer.Get(ctx, version, name, int64(target.Len()))
			if err != nil {
				return err
			}
			if have != version || !slices.Equal(got.Float32s(), target.Float32s()) {
				return fmt.Errorf("trainer %d, version %d of %s: got %v of version %d, want %v", rank, version, name, got.Float32s(), have, target.Float32s())
			}
		}
		return nil
	}
	if err := get(0); err != nil {
		return err
	}
	for round := range j.rounds[rank] {
		rows, sent := j.rows(rank, round), 0
		if rows > 0 {
			err := pstest.Parallel(len(j.names()), func(i int) error {
				_, err := trainer.Send(ctx, round, j.names()[i], j.share(rank, round, j.names()[i]))
				return err
			})
			if err != nil {
				return err
			}
			sent = len(j.names())
		}
		if err := trainer.Barrier(ctx, round, rows, sent); err != nil {
			return err
		}
		if err := get(round + 1); err != nil {
			return err
		}
	}
	return trainer.Complete(ctx)
}

// Rounds merge what 1 to 4 trainers send as package merge does. Some trainers have no rows, and some end before others. The server ends with the
// last.
func TestSyncRounds(t *testing.T) {
	for _, rounds := range [][]uint64{{4}, {4, 4}, {2, 5}, {6, 3, 0}, {5, 5, 1, 4}} {
		t.Run(fmt.Sprint(rounds), func(t *testing.T) {
			j := syncJob{trainers: len(rounds), rounds: rounds}
			want := j.want(t)
			p := j.program()
			s := pstest.Start(t, pstest.Config(j.trainers), p)
			if err := pstest.Parallel(j.trainers, func(rank int) error { return j.train(t, s, rank, want) }); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
			for name, v := range want[len(want)-1] {
				if !slices.Equal(p.Variables[name].Float32s(), v.Float32s()) {
					t.Errorf("%s is %v at the end, want %v", name, p.Variables[name].Float32s(), v.Float32s())
				}
			}
		})
	}
}

// The data of a trainer end before the data of the others. They go on without it, all that it sent counts, and the server ends when the last one has
// completed.
func TestTrainersThatFinishEarly(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync=%v", sync), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*pstest.Patience)
			defer cancel()
			p := pstest.SGD(0, sync, 1, 2)
			s := pstest.Start(t, pstest.Config(3), p)
			steps := []uint64{1, 5, 3} // that each has data for
			if err := pstest.Parallel(len(steps), func(rank int) error {
				trainer := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
				for step := range steps[rank] {
					if _, err := trainer.Send(ctx, step, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
						return err
					}
					if err := trainer.Barrier(ctx, step, 1, 1); err != nil {
						return err
					}
					if _, _, err := trainer.Get(ctx, step+1, "w0", 2); err != nil {
						return fmt.Errorf("trainer %d in step %d: %w", rank, step, err)
					}
				}
				return trainer.Complete(ctx)
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(); err != nil {
				t.Fatalf("all trainers have completed, and the server ends with %v", err)
			}
			want := float32(-5) // rounds, each with the mean of those who were in it
			if !sync {
				want = -9 // updates
			}
			if w := p.Variables["w0"].Float32s()[1]; w != want {
				t.Errorf("the parameter ends at %v, want %v", w, want)
			}
		})
	}
}

// Updates of different parameters run at the same time, where they have some bytes: here each waits for the other.
func TestUpdatesOverlap(t *testing.T) {
	const size = 128 << 10 // elements: two of these are worth a second core
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync=%v", sync), func(t *testing.T) {
			p := pstest.SGD(0, sync, 1, size, size)
			begun := []chan struct{}{make(chan struct{}), make(chan struct{})}
			for i, block := range p.Service.Optimize {
				update := p.Blocks[block]
				p.Blocks[block] = func(ctx context.Context, step ops.Step) error {
					close(begun[i])
					select {
					case <-begun[1-i]:
						return update(ctx, step)
					case <-ctx.Done():
						return fault.New(fault.Internal, "the other update does not begin before the end of this one")
					}
				}
			}
			s := pstest.Start(t, pstest.Config(1), p)
			a := pstest.Trainer{Client: s.Client}
			for i := range begun {
				if _, err := a.Send(t.Context(), 0, fmt.Sprintf("w%d@GRAD", i), pstest.Filled(size, 1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Barrier(t.Context(), 0, 1, 2); err != nil {
				t.Fatal(err)
			}
			version := uint64(1) // of the rounds
			if !sync {
				version = 2 // of the updates
			}
			for i := range begun {
				if w, got, err := a.Get(t.Context(), 1, fmt.Sprintf("w%d", i), size); err != nil || w.Float32s()[size-1] != -1 || got != version {
					t.Errorf("w%d is %v in version %d, %v; want -1 in version %d", i, w, got, err, version)
				}
			}
		})
	}
}
