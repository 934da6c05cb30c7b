package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

// sharing is the connection of a trainer that has the same rows as another one. It counts what is sent.
type sharing struct {
	countingComm
	asked int
}

func (s *sharing) ShareTotals(_ context.Context, _ int, own ops.Totals, _ func([]ops.Totals) (ops.Totals, error)) ([]ops.Totals, error) {
	s.asked++
	return []ops.Totals{own, own}, nil
}

// trainerOf is the program of a trainer whose loss is the quotient of a mean over words and one over records, with a send of each gradient.
func trainerOf(t *testing.T) (p *program.Program, loss string) {
	t.Helper()
	m := layers.NewModel()
	words, y := layers.Data(m, "words", layers.Dims(3), layers.LoD(1)), layers.Data(m, "y", layers.Dims(1))
	quotient := layers.Div(layers.Mean(layers.Square(layers.FC(words, 2))), layers.Mean(y))
	pairs := optimizer.AppendBackward(quotient)
	p, err := m.Program()
	if err == nil {
		p, err = ops.ShareTotals(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range pairs {
		p.Global().Append(&program.Op{Type: "send", Inputs: map[string][]string{"X": {pair.Grad.Name()}}, Attrs: map[string]program.Attr{"epmap": []string{"pserver:0"}}})
	}
	p.Global().Append(&program.Op{Type: "send_barrier"})
	return p, quotient.Name()
}

// plansMade counts the plans that an executor tells that it has compiled.
type plansMade struct{ n int }

func (*plansMade) Enabled(context.Context, slog.Level) bool { return true }
func (c *plansMade) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "compiled a plan" {
		c.n++
	}
	return nil
}
func (c *plansMade) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *plansMade) WithGroup(string) slog.Handler      { return c }

// lines is a batch of two records with so many words, and what they are divided by.
func lines(t *testing.T, n int64, y ...float32) executor.Feed {
	words := fixture.Numbers(uint64(n), n, 3)
	words.SetLoD([][]int64{{0, 1, n}})
	return executor.Feed{"words": words, "y": values(t, y, 2, 1)}
}

// A plan in which trainers share totals takes batches of other lengths, and computes what a new plan does.
func TestPlansThatAskTakeOtherLengths(t *testing.T) {
	p, loss := trainerOf(t)
	made := &plansMade{}
	kept := executor.New(executor.WithComm(&sharing{}), executor.WithStage(program.StageTrainer), executor.WithLogger(slog.New(made)))
	defer kept.Close()
	const steps = 12
	for n := range int64(steps) {
		step := ops.Step{Round: uint64(n), Rows: 2, Part: true, Batch: 4}
		feed, fetch := lines(t, n+2, 1, 2), []string{loss, "fc_0.w_0@GRAD"}
		got, err := kept.RunStep(t.Context(), p, step, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		fresh := executor.New(executor.WithComm(&sharing{}), executor.WithStage(program.StageTrainer))
		defer fresh.Close()
		want, err := fresh.RunStep(t.Context(), p, step, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range fetch {
			if !slices.Equal(got[i].Float32s(), want[i].Float32s()) {
				t.Errorf("%d words: %s is %v, want %v", n+2, fetch[i], got[i].Float32s(), want[i].Float32s())
			}
		}
	}
	if made.n >= steps {
		t.Errorf("%d plans for %d lengths", made.n, steps)
	}
}

// A loss that is not finite ends the step before anything is sent, also if it is a function of totals that others have shared. The search for the op asks again.
func TestLossOfTotalsThatIsNotFiniteIsNotSent(t *testing.T) {
	p, loss := trainerOf(t)
	comm := &sharing{}
	l := executor.New(executor.WithComm(comm), executor.WithStage(program.StageTrainer))
	defer l.Close()
	_, err := l.RunStep(t.Context(), p, ops.Step{Rows: 2, Part: true, Batch: 4}, lines(t, 3, 1, -1), loss)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.NotFinite || f.Op != "elementwise_div" {
		t.Errorf("%v, want the quotient", err)
	}
	if comm.sends != 0 || comm.asked != 2 {
		t.Errorf("%d gradients are sent, and totals were asked for %d times, want none and 2", comm.sends, comm.asked)
	}
}
