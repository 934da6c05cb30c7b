package remote_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// writeSamples writes records of 6 features and the value of a fixed function of them.
func writeSamples(t *testing.T, records int) string {
	t.Helper()
	dir := t.TempDir()
	w, err := dataset.CreateShards(dir, "train", 2, recordio.Options{ChunkRecords: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		xs := make([]float32, 6)
		for k := range xs {
			xs[k] = float32((i*(k+3)*7)%41)/41 - 0.5
		}
		x, _ := tensor.FromSlice(xs, 6)
		y, _ := tensor.FromSlice([]float32{xs[0]*2 - xs[1] + 0.5*xs[2]*xs[3]}, 1)
		if err := w.Write(dataset.AppendRecord(nil, x, y)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "train-*")
}

// reading is a model that reads the samples.
func reading(t *testing.T, batch, shuffle int, body func(x layers.Variable) layers.Variable, opt *optimizer.Optimizer) (*program.Program, string) {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(6)), layers.Field("y", layers.Dims(1)))
	if shuffle > 0 {
		r = layers.Shuffle(r, shuffle, 11)
	}
	vars := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
	loss := layers.Mean(layers.SquareErrorCost(body(vars[0]), vars[1]))
	opt.Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p, loss.Name()
}

func mlp(x layers.Variable) layers.Variable {
	return layers.FC(layers.FC(x, 10, layers.Act("relu")), 1)
}

// train trains and returns the saved persistable variables by name, and the losses.
func train(t *testing.T, exe executor.Executor, p *program.Program, loss, glob string, passes int) (map[string]*tensor.Tensor, []float32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var losses []float32
	_, err := exe.Train(ctx, p, executor.TrainOptions{Data: map[string][]string{"train": {glob}}, Passes: passes, Fetch: []string{loss}, Save: dir},
		func(s executor.StepResult) error {
			losses = append(losses, s.Fetched[0].Float32s()[0])
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]*tensor.Tensor{}
	for _, name := range executor.Persistables(p) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		v, err := tensor.Read(f, tensor.Limits{})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		values[name] = v
	}
	return values, losses
}

func sameBits(t *testing.T, got, want map[string]*tensor.Tensor) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if g == nil || g.String() != w.String() {
			t.Fatalf("%s: %v, want %v", name, g, w)
		}
		for i, x := range w.Float32s() {
			if math.Float32bits(x) != math.Float32bits(g.Float32s()[i]) {
				t.Fatalf("%s[%d]: %v, reference %v", name, i, g.Float32s()[i], x)
			}
		}
	}
}

func cluster(t *testing.T, trainers, pservers int, mode job.Mode) *remote.Executor {
	t.Helper()
	e, err := remote.NewExecutor("", &remote.JobSpec{Trainers: int32(trainers), Pservers: int32(pservers), Mode: mode, MinBlockSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestSyncTrainingEqualsReference(t *testing.T) {
	glob := writeSamples(t, 103)
	for _, c := range []struct{ trainers, pservers, shuffle int }{{1, 1, 0}, {2, 2, 0}, {3, 2, 30}, {4, 3, 1000}} {
		t.Run(fmt.Sprintf("%d trainers %d pservers shuffle %d", c.trainers, c.pservers, c.shuffle), func(t *testing.T) {
			p, loss := reading(t, 16, c.shuffle, mlp, optimizer.Adam(optimizer.Exponential(0.02, 5, 0.9, true), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5)), optimizer.Regularize(layers.L2(1e-3))))
			ref, err := reference.New(p, c.trainers)
			if err != nil {
				t.Fatal(err)
			}
			defer ref.Close()
			want, wantLosses := train(t, ref, p, loss, glob, 3)
			got, losses := train(t, cluster(t, c.trainers, c.pservers, job.Mode_SYNC), p, loss, glob, 3)
			sameBits(t, got, want)
			if len(losses) != len(wantLosses) {
				t.Fatalf("%d steps, want %d", len(losses), len(wantLosses))
			}
			for i := range losses {
				if losses[i] != wantLosses[i] {
					t.Fatalf("step %d: loss %v, want %v", i, losses[i], wantLosses[i])
				}
			}
		})
	}
}

func TestAsyncWithOneTrainerEqualsLocal(t *testing.T) {
	glob := writeSamples(t, 64)
	p, loss := reading(t, 16, 0, mlp, optimizer.Momentum(optimizer.Exponential(0.02, 5, 0.9, true), 0.9, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))))
	local := executor.New()
	defer local.Close()
	want, _ := train(t, local, p, loss, glob, 2)
	got, _ := train(t, cluster(t, 1, 2, job.Mode_ASYNC), p, loss, glob, 2)
	sameBits(t, got, want)
}

func TestAsyncTrainsEveryRecord(t *testing.T) {
	glob := writeSamples(t, 103)
	p, loss := reading(t, 8, 20, mlp, optimizer.SGD(0.05))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	summary, err := cluster(t, 3, 2, job.Mode_ASYNC).Train(ctx, p, executor.TrainOptions{Data: map[string][]string{"train": {glob}}, Passes: 4, Fetch: []string{loss}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Records != 4*103 {
		t.Errorf("%d records, want %d", summary.Records, 4*103)
	}
}
