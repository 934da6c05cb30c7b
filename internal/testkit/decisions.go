package testkit

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/tensor"
)

// A Decision is what a job with backup trainers says of one round.
type Decision struct {
	Rows    int64
	Dropped []int
	Loss    *tensor.Tensor // nil: it is not compared
}

// ReplayDecisions trains passes on the reference as a job with backup trainers has decided: which contributions counted in each round. The records of the others are
// trained at the end of their pass. It compares rows and losses of all rounds.
func ReplayDecisions(ctx context.Context, t testing.TB, want *reference.Executor, m Model, data map[string][]string, passes, trainers int, rounds []Decision) {
	t.Helper()
	names, err := executor.ReadVariables(m.Program)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	want.Drop(func(round uint64) []int { return rounds[round].Dropped })
	for pass := range passes {
		for owed := ranges.Set(nil); ; {
			source, err := executor.OpenFiles(ctx, m.Program, data, 1)
			if err != nil {
				t.Fatal(err)
			}
			from := executor.Progress{Pass: pass}
			if all := (ranges.Set{{From: 0, To: source.NumRecords()}}); owed != nil {
				from.Trained = all.Without(owed).Text()
			}
			source.GoOn(from)
			owed = nil
			for {
				batch, err := source.Next(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if at == len(rounds) {
					t.Fatalf("%d rounds, and more records are left", at)
				}
				gone := droppedOf(batch.Records, batch.GlobalRows, rounds[at].Dropped, int64(trainers))
				if counts := batch.GlobalRows - gone.Count(); counts != rounds[at].Rows {
					t.Errorf("round %d: %d rows, without trainers %v, want %d", at, rounds[at].Rows, rounds[at].Dropped, counts)
				}
				owed = owed.Union(gone)
				feed := executor.Feed{}
				for i, name := range names {
					feed[name] = batch.Tensors[i]
				}
				got, err := want.Run(ctx, m.Program, feed, m.Loss)
				if err != nil {
					t.Fatalf("round %d: %v", at, err)
				}
				if loss := rounds[at].Loss; loss != nil && !Same(got[0], loss) {
					t.Errorf("round %d: loss %s, want %s", at, Show(loss), Show(got[0]))
				}
				at++
			}
			source.Close()
			if len(owed) == 0 {
				break
			}
		}
	}
	if at != len(rounds) {
		t.Errorf("%d rounds, want %d", len(rounds), at)
	}
}

// droppedOf returns the records of a batch that the given ones of its trainers have.
func droppedOf(records []ranges.Range, rows int64, dropped []int, trainers int64) ranges.Set {
	var gone []ranges.Range
	for place, p := range records {
		before := ranges.Count(records[:place])
		for _, d := range dropped {
			from, to := rows*int64(d)/trainers-before, rows*int64(d+1)/trainers-before
			gone = append(gone, ranges.Range{From: p.From + max(0, from), To: p.From + min(p.Len(), max(0, to))})
		}
	}
	return ranges.Of(gone...)
}
