package pserver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// Cuts of a table of which rounds change some rows have the values of their round, however many rounds go on while they are written.
func TestCutOfATableThatRoundsChangeByRows(t *testing.T) {
	const height, width, touched = 30_000, 16, 40
	p := pstest.SGD(0, true, 1, 4)
	table, err := tensor.New(tensor.Float32, height, width)
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := tensor.New(tensor.Int32, compress.RowsDims(height, width)...)
	if err != nil {
		t.Fatal(err)
	}
	form, _ := compress.RowsOf(arrived)
	row := func(round uint64, i int) int { return int(round*7919+uint64(i)*641) % height }
	bring := func(round uint64) { // the rows of a round, which here nobody sends
		numbers, _ := form.Begin(touched)
		for i := range numbers {
			numbers[i] = int32(row(round, i))
		}
		slices.Sort(numbers)
	}
	bring(0)
	p.Variables["table"], p.Variables["arrived"], p.ByRows = table, arrived, map[string]string{"table": "arrived"}
	p.Service.Slices = append(p.Service.Slices, comm.Slice{Name: "table", Origin: "table", Rows: height, TotalRows: height})
	p.Uses[1] = append(p.Uses[1], "table", "arrived")
	sgd := p.Blocks[1]
	p.Blocks[1] = func(ctx context.Context, step ops.Step) error {
		numbers, _, err := form.Used()
		if err != nil {
			return err
		}
		for _, at := range numbers {
			for i := range width {
				table.Float32s()[int(at)*width+i]++
			}
		}
		bring(step.Round + 1)
		return sgd(ctx, step)
	}
	s := pstest.Start(t, pstest.Config(1), p)
	c := cutter{s, t.TempDir()}
	want, round := make([]float32, height), uint64(0)
	for ahead, made := uint64(1), 0; made < 3; {
		at, name := round+ahead, checkpoint.NewName("job", round+ahead)
		answer := c.start(t.Context(), at, name)
		var then []float32
		var a cutAnswer
		for a.CutResponse == nil && a.err == nil {
			trainRound(t, s, round)
			for i := range touched {
				want[row(round, i)]++
			}
			if round++; round == at {
				then = slices.Clone(want)
			}
			select {
			case a = <-answer:
			default:
			}
		}
		switch {
		case a.err != nil:
			t.Fatal(a.err)
		case a.Past: // the round had been applied when the request came
			ahead *= 2
		default:
			made++
			got := c.read(t, name, a.Shard, "table", height, width).Float32s()
			for row, x := range then {
				for _, y := range got[row*width:][:width] {
					if x != y {
						t.Fatalf("row %d of the cut at round %d is %v, want %v", row, at, y, x)
					}
				}
			}
		}
	}
}
