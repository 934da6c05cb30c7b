package follow_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/serving/follow"
	"github.com/edl-go/edl/tensor"
)

const rows, width, each = 64, 3, 4 // each checkpoint whose step is a multiple of each is whole

// program writes a program that looks up rows of the table "table" to a file.
func program(t *testing.T, dtype tensor.DType) string {
	t.Helper()
	m := layers.NewModel().Seed(1)
	ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64))
	found := layers.Embedding(ids, rows, width, layers.Param(layers.ParamAttr{Name: "table"}))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	v, _ := p.Global().Var("table")
	v.DType = dtype
	if p, err = export.Program(p, nil, layers.Names(found)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program.pb")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func filled(value float32, rows int64) (*tensor.Tensor, error) {
	v, err := tensor.New(tensor.Float32, rows, width)
	if err == nil {
		for i := range v.Float32s() {
			v.Float32s()[i] = value
		}
	}
	return v, err
}

// A writer writes checkpoints as a job does: every fourth one whole, with its step in all rows, and in the others the first half of the rows anew, with theirs.
type writer struct {
	store *checkpoint.Store
	base  *checkpoint.Checkpoint
}

func (w *writer) write(step int) error {
	ctx := context.Background()
	name := checkpoint.NewName("clicks-1", uint64(step))
	n := int64(rows)
	m := &state.Checkpoint{Job: "clicks", Progress: &job.Progress{Steps: uint64(step)}}
	if step%each != 0 {
		n /= 2
		for _, s := range w.base.Manifest.Shards {
			s = proto.CloneOf(s)
			s.Checkpoint = w.base.Name
			m.Shards = append(m.Shards, s)
		}
	}
	value, err := filled(float32(step), n)
	if err != nil {
		return err
	}
	own, err := w.store.WriteShard(ctx, name, 0, []checkpoint.Piece{{Variable: "table", Dims: []int64{rows, width}, Rows: n, Value: value}})
	if err != nil {
		return err
	}
	own.Changes = step%each != 0
	m.Shards = append(m.Shards, own)
	if err := w.store.Publish(ctx, name, m); err != nil {
		return err
	}
	if !own.Changes {
		if w.base, err = w.store.Read(ctx, name); err != nil {
			return err
		}
	}
	return w.store.Prune(ctx, "clicks-1", 1)
}

// While checkpoints are written and removed faster than they are read, each request is answered by one of them, no request fails, and the last one comes into use. Tables in files and in memory are the same.
func TestRequestsSeeCheckpoints(t *testing.T) {
	path := program(t, tensor.Float32)
	for name, least := range map[string]int64{"files": 1, "memory": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			where, tables := t.TempDir(), t.TempDir()
			store, err := checkpoint.Open(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			source, err := follow.Checkpoints(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			open := func() (*serving.Model, error) {
				return serving.Open(path, serving.WithSource(source), serving.WithTables(tables, least), serving.WithReload(time.Millisecond), serving.WithWorkers(2))
			}
			if m, err := open(); !errors.Is(err, fault.NotFound) {
				t.Fatalf("without a checkpoint: %v, %v", m, err)
			}
			w := &writer{store: store}
			if err := w.write(0); err != nil {
				t.Fatal(err)
			}
			m, err := open()
			if err != nil {
				t.Fatal(err)
			}
			const last = 14
			var writing sync.WaitGroup
			defer writing.Wait()
			writing.Go(func() {
				for step := 1; step <= last; step++ {
					if err := w.write(step); err != nil {
						t.Error(err)
						return
					}
				}
			})
			ids := make([]int64, rows)
			for i := range ids {
				ids[i] = int64(i)
			}
			all, err := tensor.FromSlice(ids, rows, 1)
			if err != nil {
				t.Fatal(err)
			}
			for step := 0; step < last && !t.Failed(); {
				outputs, err := m.Predict(t.Context(), map[string]*tensor.Tensor{"ids": all})
				if err != nil {
					t.Fatal(err)
				}
				got := outputs[m.Schema().Outputs[0].Name].Float32s()
				if int(got[0]) < step {
					t.Fatalf("step %v after step %d", got[0], step)
				}
				step = int(got[0])
				for i, x := range got {
					want := step
					if i >= len(got)/2 {
						want -= step % each
					}
					if x != float32(want) {
						t.Fatalf("step %d: element %d is %v, want %d", step, i, x, want)
					}
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(tables); err != nil || len(left) != 0 {
				t.Errorf("tables leave %v, %v", left, err)
			}
		})
	}
}

// Checkpoints of another program are refused, and a table that an export has widened is one of bfloat16 again.
func TestStatesThatDoNotFit(t *testing.T) {
	where := t.TempDir()
	store, err := checkpoint.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	save := func(step uint64, variable string, value *tensor.Tensor) {
		t.Helper()
		name := checkpoint.NewName("clicks-1", step)
		s, err := store.WriteShard(t.Context(), name, 0, []checkpoint.Piece{{Variable: variable, Dims: value.Dims(), Rows: value.Dims()[0], Value: value}})
		if err == nil {
			err = store.Publish(t.Context(), name, &state.Checkpoint{Job: "clicks", Progress: &job.Progress{Steps: step}, Shards: []*job.Shard{s}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func() error {
		source, err := follow.Checkpoints(t.Context(), where)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		m, err := serving.Open(program(t, tensor.Float32), serving.WithSource(source), serving.WithTables(t.TempDir(), 1))
		if err == nil {
			err = m.Close()
		}
		return err
	}
	whole, err := filled(1, rows)
	if err != nil {
		t.Fatal(err)
	}
	longer, err := filled(1, rows+1)
	if err != nil {
		t.Fatal(err)
	}
	save(1, "other", whole)
	if err := open(); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("without the table: %v", err)
	}
	save(2, "table", longer)
	if err := open(); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("other dims: %v", err)
	}
	half, err := tensor.FromHalves(tensor.BFloat16, make([]uint16, rows*width), rows, width)
	if err != nil {
		t.Fatal(err)
	}
	save(3, "table", half)
	if err := open(); err != nil {
		t.Errorf("a table of bfloat16: %v", err)
	}
}
