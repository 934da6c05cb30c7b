package executor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// server is an ops.Server that does what a test says.
type server struct {
	serve func(ctx context.Context, blocks ops.BlockRunner) error
}

func (s server) Serve(ctx context.Context, _ *program.Op, blocks ops.BlockRunner) error {
	return s.serve(ctx, blocks)
}

func (s server) Exchange(context.Context, string, *tensor.Tensor, []*tensor.Tensor) error {
	return errors.New("no other server")
}

// pserver is a program with a block that halves the learning rate and two blocks that take a step of SGD with it.
func pserver() *program.Program {
	p := program.New()
	b, startup := p.Global(), p.Startup.Global()
	declare := func(name string, persistable bool, value float32) {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}, Persistable: persistable}
		if name == "rate" || name == "base" {
			v.Dims = []int64{1}
		}
		b.EnsureVar(v)
		if value != 0 {
			startup.EnsureVar(v)
			startup.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
				Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(v.DType), "value": value}})
		}
	}
	declare("base", true, 1)
	declare("rate", true, 0) // computed by one block, read by the others
	schedule := p.NewBlock(b)
	schedule.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {"base"}}, Outputs: map[string][]string{"Out": {"rate"}},
		Attrs: map[string]program.Attr{"scale": float32(0.5)}})
	blocks, grads, ids, merges := []program.BlockIndex{}, []string{}, []int32{}, []int32{}
	for i := range 2 {
		w, g := fmt.Sprintf("w%d", i), fmt.Sprintf("w%d@GRAD", i)
		declare(w, true, float32(i+1))
		declare(g, true, 0)
		optimize := p.NewBlock(b)
		optimize.EnsureVar(program.Var{Name: "clipped", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}})
		optimize.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {g}}, Outputs: map[string][]string{"Out": {"clipped"}},
			Attrs: map[string]program.Attr{"scale": float32(1)}})
		optimize.Append(&program.Op{Type: "sgd", Inputs: map[string][]string{"Param": {w}, "Grad": {"clipped"}, "LearningRate": {"rate"}},
			Outputs: map[string][]string{"ParamOut": {w}}})
		blocks, grads, ids, merges = append(blocks, program.BlockIndex(optimize.Index)), append(grads, g), append(ids, int32(optimize.Index)),
			append(merges, int32(ops.MergeMean))
	}
	b.Append(&program.Op{Type: "listen_and_serv",
		Attrs: map[string]program.Attr{"endpoint": "pserver:0", "pserver_id": int32(0), "lr_decay_block_id": int32(schedule.Index),
			"optimize_blocks": blocks, "grad_names": grads, "grad_block_ids": ids, "grad_merge": merges}})
	return p
}

// A variable may refer to other memory from run to run if an update op alone reads it, as its gradient. Then the op reads that memory.
func TestReadByUpdate(t *testing.T) {
	serve := func(ctx context.Context, blocks ops.BlockRunner) error {
		got := blocks.(interface{ ReadByUpdate() map[string]bool }).ReadByUpdate()
		if want := map[string]bool{"w1@GRAD": true}; !maps.Equal(got, want) {
			t.Errorf("read by one update alone: %v, want %v", got, want)
		}
		g, _ := blocks.Variable("w1@GRAD")
		for i := range 3 {
			other, err := tensor.FromSlice([]float32{float32(i), 10})
			if err != nil {
				return err
			}
			if err := errors.Join(tensor.Share(g, other), blocks.RunBlock(ctx, 2, ops.Step{})); err != nil {
				return err
			}
		}
		return nil
	}
	p := program.New()
	b, startup := p.Global(), p.Startup.Global()
	add := func(name string, n int64) {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{n}, Persistable: true}
		b.EnsureVar(v)
		startup.EnsureVar(v)
		startup.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(v.DType), "value": float32(1)}})
	}
	add("rate", 1)
	for i := range 4 {
		add(fmt.Sprintf("w%d", i), 2)
		add(fmt.Sprintf("w%d@GRAD", i), 2)
	}
	sgd := func(w, g string) *program.Op {
		return &program.Op{Type: "sgd", Inputs: map[string][]string{"Param": {w}, "Grad": {g}, "LearningRate": {"rate"}},
			Outputs: map[string][]string{"ParamOut": {w}}}
	}
	scale := func(g string) *program.Op {
		return &program.Op{Type: "scale", Inputs: map[string][]string{"X": {g}}, Outputs: map[string][]string{"Out": {g}},
			Attrs: map[string]program.Attr{"scale": float32(1)}}
	}
	blocks, grads, ids, merges := []program.BlockIndex{}, []string{}, []int32{}, []int32{}
	for i, list := range [][]*program.Op{{scale("w0@GRAD"), sgd("w0", "w0@GRAD")}, {sgd("w1", "w1@GRAD")}, {sgd("w2", "w2@GRAD"), sgd("w3", "w2@GRAD")}, {}} {
		block := p.NewBlock(b)
		for _, op := range list {
			block.Append(op)
		}
		blocks, grads = append(blocks, program.BlockIndex(block.Index)), append(grads, fmt.Sprintf("w%d@GRAD", i))
		ids, merges = append(ids, int32(block.Index)), append(merges, int32(ops.MergeMean))
	}
	b.Append(&program.Op{Type: "listen_and_serv", Attrs: map[string]program.Attr{"endpoint": "pserver:0", "pserver_id": int32(0),
		"optimize_blocks": blocks, "grad_names": grads, "grad_block_ids": ids, "grad_merge": merges}})
	l := executor.New(executor.WithServer(server{serve}), executor.WithStage(program.StagePServer))
	defer l.Close()
	if _, err := l.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if w, _ := l.Scope().Find("w1"); !slices.Equal(w.Float32s(), []float32{-2, -29}) {
		t.Errorf("w1 is %v, want {-2 -29}", w)
	}
}

func TestServersRunBlocksAtTheSameTime(t *testing.T) {
	serve := func(ctx context.Context, blocks ops.BlockRunner) error {
		for i := range 2 {
			g, ok := blocks.Variable(fmt.Sprintf("w%d@GRAD", i))
			if !ok {
				return errors.New("no gradient to fill")
			}
			copy(g.Float32s(), []float32{1, 2})
		}
		for round := range uint64(3) {
			if err := blocks.RunBlock(ctx, 1, ops.Step{Round: round}); err != nil {
				return err
			}
			errs := make([]error, 2)
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() { errs[i] = blocks.RunBlock(ctx, program.BlockIndex(2+i), ops.Step{Round: round}) })
			}
			both.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
		}
		return nil
	}
	l := executor.New(executor.WithServer(server{serve}), executor.WithStage(program.StagePServer))
	defer l.Close()
	if _, err := l.Run(t.Context(), pserver(), nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float32{{-0.5, -2}, {0.5, -1}} {
		w, _ := l.Scope().Find(fmt.Sprintf("w%d", i))
		if !slices.Equal(w.Float32s(), want) {
			t.Errorf("w%d = %v, want %v", i, w.Float32s(), want)
		}
	}
}

func TestBlocksSayWhatIsMissing(t *testing.T) {
	serve := func(ctx context.Context, blocks ops.BlockRunner) error {
		if err := blocks.RunBlock(ctx, 9, ops.Step{}); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("a block that does not exist: %v", err)
		}
		if err := blocks.RunBlock(ctx, 2, ops.Step{}); !errors.Is(err, fault.NotFound) {
			t.Errorf("a block whose gradient and rate have not come: %v", err)
		}
		if _, ok := blocks.Variable("clipped"); ok {
			t.Error("a temporary of a block is visible")
		}
		if w, ok := blocks.Variable("w1"); !ok || w.Float32s()[0] != 2 {
			t.Error("a parameter is not visible")
		}
		return nil
	}
	l := executor.New(executor.WithServer(server{serve}), executor.WithStage(program.StagePServer))
	defer l.Close()
	if _, err := l.Run(t.Context(), pserver(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestServingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	serve := func(ctx context.Context, _ ops.BlockRunner) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	l := executor.New(executor.WithServer(server{serve}), executor.WithStage(program.StagePServer))
	defer l.Close()
	if _, err := l.Run(ctx, pserver(), nil); !errors.Is(err, fault.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A round changes only some rows of a variable if one update op alone writes it, by a sparse gradient that comes from what has arrived: the parameter and what
// has as many rows, and not the parameter of a dense gradient, one that another op writes, too, or one whose update touches all rows. Where keys arrive, the op that
// finds their rows tells them.
func TestChangedByRows(t *testing.T) {
	serve := func(_ context.Context, blocks ops.BlockRunner) error {
		got := blocks.(interface{ ChangedByRows() map[string]string }).ChangedByRows()
		if want := map[string]string{"w0": "x0", "m0": "x0", "w1": "x1"}; !maps.Equal(got, want) {
			t.Errorf("changed by rows: %v, want %v", got, want)
		}
		told := blocks.(interface{ ToldRows() map[string][]string }).ToldRows()
		if want := map[string][]string{"w5": {"found"}}; !reflect.DeepEqual(told, want) {
			t.Errorf("the rows are told of %v, want %v", told, want)
		}
		return nil
	}
	p := program.New()
	b, startup := p.Global(), p.Startup.Global()
	add := func(name string, dtype tensor.DType, dims ...int64) {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, Persistable: true}
		b.EnsureVar(v)
		startup.EnsureVar(v)
		startup.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(v.DType), "value": float32(1)}})
	}
	add("rate", tensor.Float32, 1)
	blocks, grads, ids, merges, rows := []program.BlockIndex{}, []string{}, []int32{}, []int32{}, []string{}
	for i := range 6 {
		w, m, x, g := fmt.Sprintf("w%d", i), fmt.Sprintf("m%d", i), fmt.Sprintf("x%d", i), fmt.Sprintf("g%d", i)
		add(w, tensor.Float32, 6, 2)
		add(m, tensor.Float32, 6, 2)
		block := p.NewBlock(b)
		dense := i == 2
		if dense {
			add(x, tensor.Float32, 6, 2)
			g = x
		} else {
			add(x, tensor.Int32, 7, 3)
			rows = append(rows, x)
			block.EnsureVar(program.Var{Name: g, Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{6, 2}})
			block.Append(&program.Op{Type: "get_selected_rows", Inputs: map[string][]string{"X": {x}}, Outputs: map[string][]string{"Out": {g}}})
		}
		if i == 5 { // of a table that grows: keys arrive, not rows
			add("keys", tensor.Int64, 6)
			add("index", tensor.Int32, 6)
			found := "found"
			block.EnsureVar(program.Var{Name: found, Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{6, 2}})
			block.Append(&program.Op{Type: "lookup_sparse_table_rows", Inputs: map[string][]string{"X": {g}, "Keys": {"keys"}, "Index": {"index"}},
				Outputs: map[string][]string{"Out": {found}}, Attrs: map[string]program.Attr{"region_rows": int64(1)}})
			g = found
		}
		in, out := map[string][]string{"Param": {w}, "Grad": {g}, "LearningRate": {"rate"}}, map[string][]string{"ParamOut": {w}}
		switch i {
		case 0:
			in["Moment"], out["MomentOut"] = []string{m}, []string{m}
			block.Append(&program.Op{Type: "adagrad", Inputs: in, Outputs: out})
		case 4:
			in["Velocity"], out["VelocityOut"] = []string{m}, []string{m}
			block.Append(&program.Op{Type: "momentum", Inputs: in, Outputs: out, Attrs: map[string]program.Attr{"mu": float32(0.5)}})
		default:
			block.Append(&program.Op{Type: "sgd", Inputs: in, Outputs: out})
		}
		if i == 3 {
			block.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {w}}, Outputs: map[string][]string{"Out": {w}},
				Attrs: map[string]program.Attr{"scale": float32(1)}})
		}
		blocks, grads = append(blocks, program.BlockIndex(block.Index)), append(grads, x)
		ids, merges = append(ids, int32(block.Index)), append(merges, int32(ops.MergeMean))
	}
	b.Append(&program.Op{Type: "listen_and_serv", Attrs: map[string]program.Attr{"endpoint": "pserver:0", "pserver_id": int32(0),
		"optimize_blocks": blocks, "grad_names": grads, "grad_block_ids": ids, "grad_merge": merges, "rows_names": rows}})
	l := executor.New(executor.WithServer(server{serve}), executor.WithStage(program.StagePServer))
	defer l.Close()
	if _, err := l.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
}
